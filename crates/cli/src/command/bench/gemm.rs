//! `demask bench gemm`: the matrix products a forward pass consists of, against what the machine allows: the smaller of
//! its peak and of what its memory delivers if weights are read once.

use anyhow::Result;
use clap::ValueEnum;
use demask::kernels::{QuantizedWeights, Weights, gemm, gemm_quantized};
use demask::model::checkpoint::quantized::Packing;
use demask::model::checkpoint::{Dtype, Mapped};
use demask::plot::Mark;

use super::limit::Machine;
use super::measure::alternate;
use super::report::{Cell, Report};
use super::{Common, Threads};

/// Matrix products of Dream-7B's and of the embedded model's shapes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rows of activations (tokens)
    #[arg(long, value_name = "M,…", value_delimiter = ',', default_value = "512,64,8,1")]
    rows: Vec<usize>,
    /// Whose shapes
    #[arg(long, value_enum, default_value_t = Shapes::Dream)]
    shapes: Shapes,
    /// A shape of your own, K×N as in 3584x18944
    #[arg(long, value_name = "KxN", value_parser = shape, conflicts_with = "shapes")]
    shape: Vec<(usize, usize)>,
    /// Precisions of the weights
    #[arg(long, value_enum, value_delimiter = ',', default_value = "int8,q4,bf16,f32")]
    dtype: Vec<Kind>,
    /// Weights of a row that share a scale [default: 128 of int8, 32 of q4]
    #[arg(long, value_name = "N")]
    group: Option<usize>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shapes {
    /// Dream-7B: queries, keys, MLP up and down
    Dream,
    /// The embedded model
    Embedded,
    /// Both
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Int8,
    Q4,
    Bf16,
    F32,
}

const DREAM: &[(usize, usize)] = &[(3584, 18944), (18944, 3584), (3584, 3584), (3584, 512)];
const EMBEDDED: &[(usize, usize)] = &[(128, 384), (384, 128), (128, 128), (128, 64)];

/// Weights of one shape in each precision asked for.
enum Matrix {
    Bytes(QuantizedWeights<'static>),
    Numbers(Mapped),
}

impl Matrix {
    fn new(kind: Kind, k: usize, n: usize, group: Option<usize>) -> Result<Self> {
        let values = noise(n * k, 2);
        let (w, group) = (Weights::F32(&values), |usual: Packing| group.unwrap_or(usual.group));
        Ok(match kind {
            Kind::Int8 => Self::Bytes(QuantizedWeights::quantize(w, n, k, group(Packing::INT8))?),
            Kind::Q4 => Self::Bytes(QuantizedWeights::quantize_four(w, n, k, group(Packing::Q4), None)?),
            Kind::Bf16 => Self::Numbers(Mapped::from_f32(&[n, k], values).to_dtype(Dtype::Bf16)),
            Kind::F32 => Self::Numbers(Mapped::from_f32(&[n, k], values)),
        })
    }

    fn size_in_bytes(&self) -> usize {
        match self {
            Self::Bytes(w) => w.size_in_bytes(),
            Self::Numbers(w) => w.size_in_bytes(),
        }
    }

    fn multiply(&self, a: &[f32], m: usize, k: usize, n: usize, c: &mut [f32]) {
        match self {
            Self::Bytes(w) => gemm_quantized(a, m, w, None, c),
            Self::Numbers(w) => gemm(a, m, k, w.weights(), n, None, c),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let shapes: Vec<(usize, usize)> = match args.shapes {
        _ if !args.shape.is_empty() => args.shape.clone(),
        Shapes::Dream => DREAM.to_vec(),
        Shapes::Embedded => EMBEDDED.to_vec(),
        Shapes::All => [DREAM, EMBEDDED].concat(),
    };
    let columns = ["M", "K", "N", "dtype", "ms", "G/s", "of peak", "of limit", "of limit by CPU time"];
    let mut report = Report::new("gemm", &columns);
    let mut machine = Machine::measure();
    let mut measured = Vec::new();
    for &(k, n) in &shapes {
        let matrices =
            args.dtype.iter().map(|&kind| Matrix::new(kind, k, n, args.group)).collect::<Result<Vec<_>>>()?;
        for &m in &args.rows {
            let a = noise(m * k, 1);
            let mut c = vec![0.0; m * n];
            let samples = alternate(args.common.repeats, matrices.len(), |index| {
                matrices[index].multiply(&a, m, k, n, &mut c);
                Ok(())
            })?;
            let sizes = matrices.iter().map(Matrix::size_in_bytes);
            let of = args.dtype.iter().zip(samples).zip(sizes);
            measured.extend(of.map(|((&kind, s), size)| (m, k, n, kind, s, size)));
        }
        // The peak of a busy machine is what its best moment shows, so it is looked for all along.
        machine = machine.or(Machine::measure());
    }
    let Machine { peak, bandwidth } = machine;
    for (m, k, n, kind, samples, size) in measured {
        let operations = 2.0 * (m * k * n) as f64;
        let most = match kind {
            Kind::Int8 => peak.int8,
            Kind::Q4 => peak.four,
            Kind::Bf16 | Kind::F32 => peak.f32,
        };
        // Weights and activations in, results out, each once.
        let bytes = (size + 4 * m * (k + n)) as f64;
        let limit = most.min(operations * bandwidth / bytes);
        let (wall, cpu) = (samples.wall(), samples.cpu());
        let name = format!("{kind:?}").to_lowercase();
        let point = (report.rows.len() as f64, operations / cpu.median / limit);
        report.chart.point(&name, Mark::Dots, point);
        report.rows.push(vec![
            Cell::Count(m),
            Cell::Count(k),
            Cell::Count(n),
            Cell::Text(name),
            Cell::Spread(wall.times(1e3), 3),
            Cell::Number(operations / wall.median / 1e9, 1),
            Cell::Share(operations / wall.median / most),
            Cell::Share(operations / wall.median / limit),
            Cell::Share(operations / cpu.median / limit),
        ]);
    }
    machine.note(&mut report);
    report.chart.title = "matrix products: share of the limit, by CPU time".into();
    report.chart.x = "row of the table".into();
    report.chart.y = "share of the limit".into();
    report.show(&args.common.output)
}

/// `KxN`.
fn shape(text: &str) -> Result<(usize, usize), String> {
    let parse = || {
        let (k, n) = text.split_once(['x', '×'])?;
        Some((k.parse().ok()?, n.parse().ok()?)).filter(|&(k, n): &(usize, usize)| k > 0 && n > 0)
    };
    parse().ok_or_else(|| "must be KxN, for example 3584x18944".into())
}

/// Values in −1..1.
pub(super) fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}
