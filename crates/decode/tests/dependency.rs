//! Dependency on the toy: D̂ of the recorded predictors, the true D by enumeration and by a draw, and
//! predictor files of every habit.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use demask_decode::Canvas;
use demask_decode::dependency::{
    Activation, DependencySource, Draws, Feature, FinalNorm, Head, Layout, Measure, Metadata, Mix, Opinion,
    Oracle, Parts, Predictor, Projection, Reveals,
};
use demask_decode::probe::BackboneProbe;
use demask_decode::rng::Rng;
use demask_decode::strategy::{BlockStep, Step};
use demask_model::checkpoint::{Dtype, Mapped, Store, write};
use demask_model::{Backbone, HiddenRow, Query, Rows, Transformer};

fn load(name: &str) -> Predictor {
    Predictor::load(&support::folder().join(name)).unwrap().0
}

fn masked(backbone: &Transformer, ids: &[u32]) -> Vec<usize> {
    (0..ids.len()).filter(|&p| ids[p] == backbone.spec().ids.mask).collect()
}

fn hidden(backbone: &Transformer, ids: &[u32], which: HiddenRow) -> Rows {
    let masked = masked(backbone, ids);
    let mut batch = [Query { tokens: ids, hidden: Some((&masked, which)), ..Query::default() }];
    backbone.forward(&mut batch).unwrap().remove(0).hidden.unwrap()
}

fn worst(ours: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    ours.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

#[test]
fn predicted_dependency_of_both_files() {
    let (backbone, arrays) = (support::backbone(), support::Arrays::open("expected.safetensors"));
    for (name, which) in [("row_i", HiddenRow::I), ("row_i_minus_1", HiddenRow::IMinusOne)] {
        let predictor = load(&format!("predictor_{name}.safetensors"));
        assert_eq!(predictor.metadata().hidden_row, which);
        predictor.check_fit(&backbone).unwrap();
        for n in 0..2 {
            let ids = arrays.ids(&format!("forward.{n}.ids"));
            let ours = predictor.predict(&hidden(&backbone, &ids, which), &[]).unwrap();
            let worst = worst(ours.data(), &arrays.get(&format!("dhat.{n}.{name}")));
            assert!(worst < 1e-5, "{name} {n}: {worst}");
        }
    }
}

#[test]
fn true_dependency_by_enumeration() {
    let (backbone, arrays) = (support::backbone(), support::Arrays::open("expected.safetensors"));
    let probe = BackboneProbe::new(&backbone, 1 << 13);
    for n in 0..2 {
        let ids = arrays.ids(&format!("dependency.{n}.ids"));
        let positions: Vec<usize> =
            arrays.get(&format!("dependency.{n}.positions")).iter().map(|&p| p as usize).collect();
        let canvas = Canvas::infill(&ids, &backbone.spec().ids).unwrap();
        assert_eq!(canvas.masked(0..ids.len()), positions);
        let step = Step {
            index: 0,
            block: BlockStep {
                count: 1,
                entered_with: positions.len(),
                length: positions.len(),
                ..BlockStep::default()
            },
            canvas: &canvas,
            masked: &positions,
            marginals: &[],
            rows: None,
            sampling: &demask_decode::Sampling::default(),
            hidden: None,
            resident: None,
            attention: None,
            rng: Rng::new(0, 0),
            probe: &probe,
        };
        let ours = Oracle::new(Draws::Enumerated).dependency(&step).unwrap();
        let worst = worst(ours.data(), &arrays.get(&format!("dependency.{n}.expected")));
        assert!(worst < 1e-5, "{n}: {worst}");
    }
}

#[test]
fn true_dependency_of_one_draw() {
    let (backbone, arrays) = (support::backbone(), support::Arrays::open("expected.safetensors"));
    let probe = BackboneProbe::new(&backbone, 512);
    for n in 0..2 {
        let ids = arrays.ids(&format!("dependency.{n}.ids"));
        let (positions, tokens) =
            (masked(&backbone, &ids), arrays.ids(&format!("dependency.{n}.sampled_tokens")));
        let reveals = Reveals::measure(&probe, &ids, &positions).unwrap();
        let ours = reveals.reveal(&probe, &tokens).unwrap();
        let worst = worst(ours.data(), &arrays.get(&format!("dependency.{n}.sampled")));
        assert!(worst < 1e-5, "{n}: {worst}");
        // One token revealed "together" is the same reveal.
        let together = reveals.reveal_together(&probe, &[(3, tokens[3])]).unwrap();
        assert!((0..positions.len()).all(|i| i == 3 || together[i] == ours.on(i, 3)));
    }
    assert_eq!(probe.asked(), 35 + 29 + 2 + 2);
}

/// The fixture's matrices, `[in, out]`.
fn fixture() -> (Rows, Rows) {
    let arrays = support::Arrays::open("predictor_row_i_minus_1.safetensors");
    let rows = |name: &str| Rows { data: arrays.f32(name), width: 64 };
    (rows("w_q"), rows("w_k"))
}

fn transposed(m: &Rows) -> Rows {
    let data = (0..m.width).flat_map(|j| (0..m.len()).map(move |i| m.row(i)[j])).collect();
    Rows { data, width: m.len() }
}

fn times_transposed(a: &Rows, b: &Rows) -> Rows {
    let dot = |x: &[f32], y: &[f32]| {
        x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>() as f32
    };
    let data = a.iter().flat_map(|x| b.iter().map(move |y| dot(x, y))).collect();
    Rows { data, width: b.len() }
}

fn tensor(m: &Rows, dtype: Dtype) -> Mapped {
    Mapped::from_f32(&[m.len(), m.width], m.data.clone()).to_dtype(dtype)
}

fn store(path: &Path, tensors: &[(&str, Mapped)], about: &[(&str, &str)]) -> Store {
    let tensors: Vec<_> = tensors.iter().map(|(name, t)| ((*name).to_owned(), t.clone())).collect();
    let about: BTreeMap<_, _> = about.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    write::file(path, &tensors, &about).unwrap();
    Store::open_file(path).unwrap()
}

#[test]
fn foreign_files_mean_the_same() {
    let backbone = support::backbone();
    let ids = support::Arrays::open("expected.safetensors").ids("forward.0.ids");
    let rows = hidden(&backbone, &ids, HiddenRow::IMinusOne);
    let expected = load("predictor_row_i_minus_1.safetensors").predict(&rows, &[]).unwrap();
    let (q, k) = fixture();
    let (qt, kt) = (transposed(&q), transposed(&k));
    let w = times_transposed(&q, &k);
    let wt = transposed(&w);
    let f = |m: &Rows| tensor(m, Dtype::F32);
    let row = ("hidden_row", "i-1");
    let extra = ("model.embed_tokens.weight", f(&q));
    type Case<'a> = (&'a str, Vec<(&'a str, Mapped)>, Vec<(&'a str, &'a str)>, bool, Layout, f64);
    let cases: Vec<Case<'_>> = vec![
        (
            "torch",
            vec![("p.q_proj.weight", f(&qt)), ("p.k_proj.weight", f(&kt))],
            vec![row],
            false,
            Layout::OutIn,
            1e-6,
        ),
        ("upper", vec![("W_Q", f(&q)), ("W_K", f(&k))], vec![row], false, Layout::InOut, 1e-6),
        (
            "said",
            vec![("query.weight", f(&q)), ("key.weight", f(&k))],
            vec![row, ("layout", "[in, out]")],
            false,
            Layout::InOut,
            1e-6,
        ),
        ("merged", vec![("W", f(&w))], vec![row], true, Layout::InOut, 1e-5),
        ("linear", vec![("x.bilinear.weight", f(&wt))], vec![row], true, Layout::OutIn, 1e-5),
        ("alone", vec![("whatever", f(&w))], vec![row], true, Layout::InOut, 1e-5),
        (
            "halves",
            vec![("w_q", tensor(&q, Dtype::F16)), ("w_k", tensor(&k, Dtype::F16))],
            vec![row],
            false,
            Layout::InOut,
            2e-2,
        ),
        (
            "brain",
            vec![("w_q", tensor(&q, Dtype::Bf16)), ("w_k", tensor(&k, Dtype::Bf16))],
            vec![row],
            false,
            Layout::InOut,
            5e-2,
        ),
        (
            "inside",
            vec![("demask.w_q", f(&q)), ("demask.w_k", f(&k)), extra],
            vec![row],
            false,
            Layout::InOut,
            1e-6,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, tensors, about, merged, layout, tolerance) in cases {
        let store = store(&folder.path().join(name), &tensors, &about);
        let (parts, understanding) = Parts::from_store(&store).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((understanding.merged, understanding.layout), (merged, layout), "{name}");
        assert_eq!((understanding.width, understanding.heads), (64, 1), "{name}");
        assert_eq!(understanding.ignored, usize::from(name == "inside"), "{name}");
        let ours = Predictor::new(parts).unwrap().predict(&rows, &[]).unwrap();
        let worst = worst(ours.data(), &expected.data().iter().map(|&d| f64::from(d)).collect::<Vec<_>>());
        assert!(worst < tolerance, "{name}: {worst}");
    }
}

#[test]
fn what_was_understood_is_said() {
    let (q, k) = fixture();
    let folder = tempfile::tempdir().unwrap();
    let f = |m: &Rows| tensor(m, Dtype::F16);
    let plain =
        store(&folder.path().join("plain"), &[("q_proj.weight", f(&q)), ("k_proj.weight", f(&k))], &[]);
    let said = Parts::from_store(&plain).unwrap().1.to_string();
    for part in [
        "one head",
        "width 64",
        "W_Q and W_K",
        "[out, in]",
        "f16",
        "row i ",
        "assumed",
        "because names end in .weight",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let own = Predictor::load(&support::folder().join("predictor_row_i.safetensors")).unwrap().1;
    assert_eq!((own.layout, own.metadata.hidden_row, own.ignored), (Layout::InOut, HiddenRow::I, 0));
    assert!(own.to_string().contains("f32"), "{own}");
}

#[test]
fn files_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let (q, k) = fixture();
    let metadata = Metadata {
        hidden_row: HiddenRow::IMinusOne,
        final_norm: FinalNorm::After,
        backbone: Some("0123456789abcdef".into()),
        trained_on: Some("toy problems".into()),
        validation_mse: Some(0.0159),
        baseline_mse: Some(0.021),
        features: vec![Feature::Top1, Feature::Entropy],
        measure: Measure::Divergence,
    };
    let single = Parts::single(q.clone(), k.clone(), metadata.clone());
    let several = Parts {
        heads: vec![
            Head::Pair { query: q.clone(), key: k.clone() },
            Head::Pair { query: k.clone(), key: q.clone() },
        ],
        projection: Some(Projection {
            first: Rows { data: q.data[..64 * 48].to_vec(), width: 64 },
            second: k.clone(),
            activation: Activation::Silu,
        }),
        mix: Mix::Weighted(vec![0.25, 0.75]),
        scale: Some(0.2),
        metadata: metadata.clone(),
        stability: None,
    };
    let merged = Parts { heads: vec![Head::Merged(times_transposed(&q, &k))], ..single.clone() };
    for (name, parts) in [("single", single), ("several", several), ("merged", merged)] {
        let path = folder.path().join(name);
        parts.save(&path, Dtype::F32).unwrap();
        let (back, understanding) = Parts::load(&path).unwrap();
        assert_eq!(back, parts, "{name}");
        assert!(understanding.assumed.is_empty(), "{name}: {understanding}");
    }
    // Two of the 48 columns that the projection reads are features.
    assert_eq!(Parts::load(&folder.path().join("several")).unwrap().1.width, 46);
}

/// Features stand after the hidden row, computed by the one function; whoever does not tell them is refused.
#[test]
fn a_predictor_reads_how_sure_the_model_is() {
    let (q, k) = fixture();
    let wanted = vec![Feature::Top1, Feature::Margin, Feature::Masks];
    let metadata = Metadata { features: wanted.clone(), ..Metadata::new(HiddenRow::I) };
    let with = Predictor::new(Parts::single(q.clone(), k.clone(), metadata)).unwrap();
    let plain = Predictor::new(Parts::single(q.clone(), k, Metadata::new(HiddenRow::I))).unwrap();
    assert_eq!((with.width(), plain.width()), (61, 64));
    let rows = Rows { data: q.data[..61 * 3].to_vec(), width: 61 };
    let opinion = |top1: f32| Opinion { top1, top2: 0.1, entropy: 1.0 - top1, before: None };
    let opinions = [0.9, 0.5, 0.3].map(opinion);
    // By hand: the three features of each position after its row.
    let by_hand = rows.iter().zip(opinions).flat_map(|(row, o)| {
        row.iter().copied().chain([o.top1, o.top1 - o.top2, 3_f32.ln()]).collect::<Vec<_>>()
    });
    let by_hand = Rows { data: by_hand.collect(), width: 64 };
    assert_eq!(with.predict(&rows, &opinions).unwrap(), plain.predict(&by_hand, &[]).unwrap());
    let error = with.predict(&rows, &[]).unwrap_err().to_string();
    assert!(error.contains("how sure"), "{error}");
    let history = Metadata { features: vec![Feature::Kept], ..Metadata::new(HiddenRow::I) };
    let error = Predictor::new(Parts::single(q.clone(), q, history)).unwrap_err().to_string();
    assert!(error.contains("kept"), "{error}");
}

/// A divergence is above 0 and not bounded by 1: its scores end in a softplus, on the same bilinear form.
#[test]
fn a_predictor_of_information_ends_in_a_softplus() {
    let (q, k) = fixture();
    let of = |measure| {
        let metadata = Metadata { measure, ..Metadata::new(HiddenRow::I) };
        Predictor::new(Parts::single(q.clone(), k.clone(), metadata)).unwrap()
    };
    let (tv, kl) = (of(Measure::TotalVariation), of(Measure::Divergence));
    let rows = Rows { data: q.data[..64 * 5].iter().map(|v| v * 2.0).collect(), width: 64 };
    let (tv, kl) = (tv.predict(&rows, &[]).unwrap(), kl.predict(&rows, &[]).unwrap());
    for (sigmoid, softplus) in tv.data().iter().zip(kl.data()) {
        // softplus(s) = −ln(1 − σ(s)); diagonals are 0 in both.
        assert!((softplus + (1.0 - sigmoid).ln()).abs() < 1e-4 * softplus.max(1.0), "{sigmoid} {softplus}");
    }
}

#[test]
fn heads_side_by_side_are_cut_apart() {
    let (q, k) = fixture();
    let folder = tempfile::tempdir().unwrap();
    let tensors = [
        ("q_proj.weight", tensor(&transposed(&q), Dtype::F32)),
        ("k_proj.weight", tensor(&transposed(&k), Dtype::F32)),
    ];
    let store = store(&folder.path().join("heads"), &tensors, &[("heads", "4")]);
    let (parts, understanding) = Parts::from_store(&store).unwrap();
    assert_eq!((parts.heads.len(), understanding.heads, parts.width()), (4, 4, 64));
    let Head::Pair { query, .. } = &parts.heads[2] else { panic!("pairs stay pairs") };
    assert_eq!((query.width, query.row(5)), (16, &q.row(5)[32..48]));
}

#[test]
fn a_predictor_in_a_checkpoint_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        support::folder().join("predictor_row_i.safetensors"),
        folder.path().join("predictor.safetensors"),
    )
    .unwrap();
    assert_eq!(Predictor::load(folder.path()).unwrap().0.width(), 64);
    let error = Predictor::load(&support::folder()).unwrap_err().to_string();
    assert!(error.contains("several predictors") && error.contains("predictor_row_i.safetensors"), "{error}");
    let toy = folder.path().join("toy");
    std::fs::create_dir(&toy).unwrap();
    std::fs::copy(support::folder().join("model.safetensors"), toy.join("model.safetensors")).unwrap();
    let error = Predictor::load(&toy).unwrap_err().to_string();
    assert!(error.contains("no tensors named like"), "{error}");
}

#[test]
fn unusable_files_are_refused_with_a_sentence() {
    let (q, k) = fixture();
    let f = |m: &Rows| tensor(m, Dtype::F32);
    let half = Rows { data: q.data[..64 * 32].to_vec(), width: 64 };
    let nan = Rows { data: vec![f32::NAN; 64 * 64], width: 64 };
    let bias = Mapped::from_f32(&[64], vec![0.5; 64]);
    type Case<'a> = (&'a str, Vec<(&'a str, Mapped)>, Vec<(&'a str, &'a str)>);
    let cases: Vec<Case<'_>> = vec![
        ("1 W_Q, 0 W_K", vec![("w_q", f(&q))], vec![]),
        ("head 0", vec![("w_q", f(&q)), ("w_k", f(&half))], vec![]),
        ("bias", vec![("q.weight", f(&q)), ("k.weight", f(&k)), ("q.bias", bias)], vec![]),
        ("hidden_row", vec![("w_q", f(&q)), ("w_k", f(&k))], vec![("hidden_row", "i+1")]),
        ("layout", vec![("w_q", f(&q)), ("w_k", f(&k))], vec![("layout", "sideways")]),
        ("add the metadata layout", vec![("q.weight", f(&q)), ("k", f(&k))], vec![]),
        ("both look like", vec![("a.w_q", f(&q)), ("b.w_q", f(&q)), ("w_k", f(&k))], vec![]),
        ("d = 128", vec![("w_q", f(&q)), ("w_k", f(&k))], vec![("d", "128")]),
        ("heads = 5", vec![("w", f(&q))], vec![("heads", "5")]),
        ("not finite", vec![("w_q", f(&nan)), ("w_k", f(&k))], vec![]),
        ("is not a number", vec![("w_q", f(&q)), ("w_k", f(&k))], vec![("validation_mse", "low")]),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (index, (named, tensors, about)) in cases.iter().enumerate() {
        let path = folder.path().join(format!("bad-{index}"));
        let error = Parts::from_store(&store(&path, tensors, about)).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("bad-"), "{named}: {error}");
    }
    assert!(Predictor::load(&folder.path().join("nowhere")).unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn a_predictor_of_another_backbone_is_refused() {
    let backbone = support::backbone();
    let fingerprint = backbone.fingerprint();
    let made = |width: usize, change: &dyn Fn(&mut Metadata)| {
        let mut metadata = Metadata::new(HiddenRow::I);
        change(&mut metadata);
        Predictor::from_merged(width, vec![vec![0.0; width * width]], Mix::Mean, metadata).unwrap()
    };
    made(64, &|m| m.backbone = Some(fingerprint.clone())).check_fit(&backbone).unwrap();
    let refused = |predictor: Predictor| predictor.check_fit(&backbone).unwrap_err().to_string();
    assert!(refused(made(32, &|_| ())).contains("width 32 but the backbone's are 64"));
    assert!(
        refused(made(64, &|m| m.backbone = Some("another".into()))).contains("trained on backbone another")
    );
    assert!(refused(made(64, &|m| m.final_norm = FinalNorm::Before)).contains("before the final norm"));
}
