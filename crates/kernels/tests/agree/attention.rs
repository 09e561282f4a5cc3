//! Attention and its gradient, over segments of odd sizes, grouped heads, causal or not.

use demask_kernels::{Heads, Segment, attention, attention_backward};
use proptest::prelude::*;

use crate::{each_isa, naive, near, noise, same, slope, weighted, wide};

/// Segments of the given lengths, one after another.
fn packed(lengths: &[(usize, usize)], causal: Option<usize>) -> (Vec<Segment>, usize, usize) {
    let (mut q, mut k, mut segments) = (0, 0, vec![]);
    for &(q_len, k_len) in lengths {
        segments.push(Segment { q: q..q + q_len, k: k..k + k_len, causal_offset: causal });
        (q, k) = (q + q_len, k + k_len);
    }
    (segments, q, k)
}

struct Case {
    heads: Heads,
    segments: Vec<Segment>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Case {
    fn new(heads: Heads, (segments, q_rows, k_rows): (Vec<Segment>, usize, usize), seed: u64) -> Self {
        let q = noise(q_rows * heads.query * heads.dim, seed).iter().map(|x| 3.0 * x).collect();
        let (k, v) =
            (noise(k_rows * heads.kv * heads.dim, seed ^ 1), noise(k_rows * heads.kv * heads.dim, seed ^ 2));
        Self { heads, segments, q, k, v }
    }

    fn run(&self) -> (Vec<f32>, Vec<f32>) {
        let (mut out, mut lse) =
            (vec![f32::NAN; self.q.len()], vec![f32::NAN; self.q.len() / self.heads.dim]);
        attention(&self.q, &self.k, &self.v, self.heads, &self.segments, &mut out, Some(&mut lse));
        (out, lse)
    }

    fn gradients(&self, pull: &[f32]) -> [Vec<f32>; 3] {
        let (out, lse) = self.run();
        let mut grads = [&self.q, &self.k, &self.v].map(|x| vec![f32::NAN; x.len()]);
        let [gq, gk, gv] = &mut grads;
        let (q, k, v) = (&self.q, &self.k, &self.v);
        attention_backward(q, k, v, &out, &lse, pull, self.heads, &self.segments, gq, gk, gv);
        grads
    }

    fn check_forward(&self) -> Result<(), String> {
        let (out, lse) =
            naive::attention(&wide(&self.q), &wide(&self.k), &wide(&self.v), self.heads, &self.segments);
        let mut result = Ok(());
        each_isa(|isa| {
            let found = self.run();
            let agree = near(&found.0, &out, 3e-6).and(near(&found.1, &lse, 3e-6));
            result = result.clone().and(agree.map_err(|e| format!("{}: {e}", isa.name())));
        });
        result
    }

    fn check_backward(&self, seed: u64) -> Result<(), String> {
        let pull = noise(self.q.len(), seed);
        let (q, k, v) = (wide(&self.q), wide(&self.k), wide(&self.v));
        let loss = |q: &[f64], k: &[f64], v: &[f64]| {
            weighted(&naive::attention(q, k, v, self.heads, &self.segments).0, &pull)
        };
        let mut result = Ok(());
        each_isa(|isa| {
            let [grad_q, grad_k, grad_v] = self.gradients(&pull);
            let agree = slope(&self.q, &grad_q, seed, |q| loss(q, &k, &v))
                .and_then(|()| slope(&self.k, &grad_k, seed, |k| loss(&q, k, &v)))
                .and_then(|()| slope(&self.v, &grad_v, seed, |v| loss(&q, &k, v)));
            result = result.clone().and(agree.map_err(|e| format!("{}: {e}", isa.name())));
        });
        result
    }
}

fn heads() -> impl Strategy<Value = Heads> {
    (1usize..4, 1usize..4, 1usize..50).prop_map(|(kv, group, dim)| Heads { query: kv * group, kv, dim })
}

proptest! {
    #![proptest_config(crate::cases(40))]

    #[test]
    fn forward_agrees(
        heads in heads(),
        lengths in prop::collection::vec((0usize..40, 0usize..60), 1..4),
        causal in prop::option::of(0usize..5),
        seed: u64,
    ) {
        prop_assert_eq!(Case::new(heads, packed(&lengths, causal), seed).check_forward(), Ok(()));
    }

    #[test]
    fn backward_is_the_slope(
        heads in heads(),
        lengths in prop::collection::vec((1usize..20, 1usize..20), 1..3),
        causal in prop::option::of(0usize..5),
        seed: u64,
    ) {
        prop_assert_eq!(Case::new(heads, packed(&lengths, causal), seed).check_backward(seed), Ok(()));
    }
}

/// More keys than a block and more queries than one, so that the online softmax and the carried sums are used.
#[test]
fn long_segments_cross_blocks() {
    for causal in [None, Some(0), Some(210)] {
        let case = Case::new(Heads { query: 2, kv: 1, dim: 24 }, packed(&[(130, 530), (3, 300)], causal), 11);
        assert_eq!(case.check_forward(), Ok(()));
        assert_eq!(case.check_backward(12), Ok(()));
    }
}

/// Segments may read the same keys (a shared prompt); their gradients add.
#[test]
fn shared_keys_add_their_gradients() {
    let segments = vec![
        Segment { q: 0..4, k: 0..9, causal_offset: None },
        Segment { q: 4..11, k: 2..9, causal_offset: Some(1) },
    ];
    let case = Case::new(Heads { query: 4, kv: 2, dim: 17 }, (segments, 11, 9), 13);
    assert_eq!(case.check_forward(), Ok(()));
    assert_eq!(case.check_backward(14), Ok(()));
}

/// A segment gives the same bits alone, in company, and on any number of threads.
#[test]
fn a_segment_does_not_know_its_batch() {
    // Forcing is global and sums are of other lanes on another set: nobody may force one meanwhile.
    each_isa(|_| {
        let heads = Heads { query: 6, kv: 2, dim: 32 };
        let case = Case::new(heads, packed(&[(70, 70), (33, 300), (200, 200)], None), 15);
        let pull = noise(case.q.len(), 16);
        let (whole, grads) = (case.run().0, case.gradients(&pull));
        for threads in [1, 2, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            assert_eq!(same(&pool.install(|| case.run()).0, &whole), Ok(()));
            for (found, expected) in pool.install(|| case.gradients(&pull)).iter().zip(&grads) {
                assert_eq!(same(found, expected), Ok(()));
            }
        }
        let (q_width, k_width) = (heads.query * heads.dim, heads.kv * heads.dim);
        for segment in &case.segments {
            let (q, k) = (
                segment.q.start * q_width..segment.q.end * q_width,
                segment.k.start * k_width..segment.k.end * k_width,
            );
            let alone = Case {
                heads,
                segments: packed(&[(segment.q.len(), segment.k.len())], None).0,
                q: case.q[q.clone()].to_vec(),
                k: case.k[k.clone()].to_vec(),
                v: case.v[k.clone()].to_vec(),
            };
            assert_eq!(same(&alone.run().0, &whole[q.clone()]), Ok(()));
            let [gq, gk, gv] = alone.gradients(&pull[q.clone()]);
            assert_eq!(same(&gq, &grads[0][q]), Ok(()));
            assert_eq!(same(&gk, &grads[1][k.clone()]), Ok(()));
            assert_eq!(same(&gv, &grads[2][k]), Ok(()));
        }
    });
}

#[test]
#[should_panic(expected = "two segments share a query row")]
fn overlapping_queries_are_refused() {
    let segments = vec![
        Segment { q: 0..4, k: 0..4, causal_offset: None },
        Segment { q: 3..5, k: 0..4, causal_offset: None },
    ];
    Case::new(Heads { query: 1, kv: 1, dim: 4 }, (segments, 5, 4), 0).run();
}
