//! Logits reduced on the device they were made on: softmax statistics, total variation, and draws by the inverse of the
//! distribution function. All in f32.

use candle_core::{D, DType, Device, Result as Candle, Tensor};

use super::device::{self, OnDevice, Statistics};
use crate::error::Result;

/// Numbers of a row that cross over.
pub(super) const NUMBERS: usize = 6;
/// Logits whose probabilities are summed together to find where a draw falls.
const BUCKET: usize = 256;
/// Exponents below this are nothing.
const NOTHING: f64 = -1e4;

/// A bias as tensors.
pub(super) struct Bias {
    plain: Option<Tensor>,
    marked: Option<(Tensor, Vec<bool>)>,
}

impl Bias {
    pub(super) fn new(bias: &device::Bias, vocab: usize, device: &Device) -> Candle<Self> {
        let row = |ids: &[(u32, f32)]| -> Candle<Option<Tensor>> {
            if ids.is_empty() {
                return Ok(None);
            }
            let (index, value): (Vec<u32>, Vec<f32>) = ids.iter().copied().unzip();
            let zero = Tensor::zeros(vocab, DType::F32, device)?;
            let row = zero.scatter_add(&Tensor::new(index, device)?, &Tensor::new(value, device)?, 0)?;
            row.reshape((1, vocab)).map(Some)
        };
        let marked = match bias.marked.contains(&true) {
            true => row(&bias.marked_ids)?.map(|row| (row, bias.marked.clone())),
            false => None,
        };
        Ok(Self { plain: row(&bias.ids)?, marked })
    }

    /// Logits of rows from number `start` on, with the bias.
    pub(super) fn add(&self, logits: &Tensor, start: usize) -> Candle<Tensor> {
        let logits = match &self.plain {
            Some(row) => logits.broadcast_add(row)?,
            None => logits.clone(),
        };
        let Some((row, marked)) = &self.marked else { return Ok(logits) };
        // A mask times −∞ would be no number, so it is chosen and not multiplied.
        let rows = logits.dim(0)?;
        let chosen: Vec<u8> = marked[start..start + rows].iter().map(|&m| u8::from(m)).collect();
        let chosen = Tensor::from_vec(chosen, (rows, 1), logits.device())?.broadcast_as(logits.shape())?;
        chosen.where_cond(&logits.broadcast_add(row)?, &logits)
    }
}

/// `[rows, 6]`: maximum, its index, sum of exponentials below it, second largest, weighted sum, and the same of ln.
pub(super) fn statistics(logits: &Tensor) -> Candle<Tensor> {
    let max = logits.max_keepdim(D::Minus1)?;
    let argmax = logits.argmax_keepdim(D::Minus1)?;
    let below = logits.broadcast_sub(&max)?;
    let exponentials = below.exp()?;
    let sum = exponentials.sum_keepdim(D::Minus1)?;
    // −∞ · 0 would be no number.
    let weighted = (exponentials * below.maximum(NOTHING)?)?.sum_keepdim(D::Minus1)?;
    let hole = Tensor::full(f32::NEG_INFINITY, argmax.shape(), logits.device())?;
    let second = logits.scatter_add(&argmax.contiguous()?, &hole, D::Minus1)?.max_keepdim(D::Minus1)?;
    let argmax = argmax.to_dtype(DType::F32)?;
    Tensor::cat(&[&max, &argmax, &sum, &second, &weighted, &sum.log()?], 1)
}

/// What [`statistics`] means.
pub(super) fn read(numbers: &[f32]) -> impl Iterator<Item = Statistics> {
    numbers.chunks_exact(NUMBERS).map(|row| {
        let [max, argmax, sum, second, weighted, log] = [row[0], row[1], row[2], row[3], row[4], row[5]];
        let finite = max.is_finite() && sum > 0.0;
        Statistics {
            max,
            logsumexp: if finite { max + log } else { f32::NAN },
            argmax: argmax as usize,
            top1: 1.0 / sum,
            top2: (second - max).exp() / sum,
            entropy: log - weighted / sum,
        }
    })
}

/// `ln Σ e^z` of every row.
pub(super) fn log_sum(logits: &Tensor) -> Candle<Tensor> {
    let max = logits.max_keepdim(D::Minus1)?;
    logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?.log()? + max
}

/// Half the sum of the differences of two distributions, row by row.
pub(super) fn total_variation(base: &Tensor, logits: &Tensor) -> Candle<Tensor> {
    let differences = (probabilities(base)? - probabilities(logits)?)?.abs()?;
    differences.sum(D::Minus1)? * 0.5
}

fn probabilities(logits: &Tensor) -> Candle<Tensor> {
    let weights = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?.exp()?;
    weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)
}

/// See [`OnDevice::draw`]: the sums of buckets cross over, and of each row the one bucket in which its draw falls.
pub(super) fn draw(at: &dyn OnDevice, logits: &Tensor, except: u32, uniform: &[f64]) -> Result<Vec<u32>> {
    let (rows, vocab) = logits.dims2()?;
    let buckets = vocab.div_ceil(BUCKET);
    let hidden = Tensor::full(f32::NEG_INFINITY, (rows, 1), logits.device())?;
    let index = Tensor::full(except, (rows, 1), logits.device())?;
    let weights = probabilities(&logits.scatter_add(&index, &hidden, D::Minus1)?)?;
    let weights = weights.pad_with_zeros(D::Minus1, 0, buckets * BUCKET - vocab)?;
    let weights = weights.reshape((rows, buckets, BUCKET))?;
    let sums = at.fetch(&weights.sum(D::Minus1)?)?;
    let (mut chosen, mut left) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for (row, (sums, uniform)) in sums.chunks_exact(buckets).zip(uniform).enumerate() {
        let total: f64 = sums.iter().map(|&s| f64::from(s)).sum();
        let (bucket, rest) = fall(sums, uniform * total);
        chosen.push((row * buckets + bucket) as u32);
        left.push(rest);
    }
    let flat = weights.reshape((rows * buckets, BUCKET))?;
    let inside = at.fetch(&flat.index_select(&Tensor::new(chosen.as_slice(), logits.device())?, 0)?)?;
    let each = inside.chunks_exact(BUCKET).zip(&left).zip(&chosen).enumerate();
    let token = each.map(|(row, ((weights, &left), &bucket))| {
        let first = (bucket as usize - row * buckets) * BUCKET;
        (first + fall(weights, left).0) as u32
    });
    Ok(token.collect())
}

/// The first index at which the running sum passes `target`, and what is left of it there; the last that weighs anything
/// where rounding kept it from being passed.
fn fall(weights: &[f32], target: f64) -> (usize, f64) {
    let (mut left, mut last) = (target, (0, 0.0));
    for (index, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            last = (index, left);
        }
        if left < f64::from(weight) {
            return (index, left);
        }
        left -= f64::from(weight);
    }
    last
}

#[cfg(test)]
mod tests {
    use demask_kernels::{softmax_stats, total_variation as kernel};

    use super::*;

    fn rows() -> Vec<Vec<f32>> {
        let number = |i: usize, salt: usize| ((i * 7919 + salt * 104_729) % 1013) as f32 / 101.3 - 5.0;
        let mut rows: Vec<Vec<f32>> =
            (0..5).map(|salt| (0..700).map(|i| number(i, salt)).collect()).collect();
        rows[1][30] = f32::NEG_INFINITY;
        rows[2][5] = 40.0;
        rows[2][600] = 40.0;
        rows
    }

    fn tensor(rows: &[Vec<f32>]) -> Tensor {
        Tensor::from_vec(rows.concat(), (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
    }

    #[test]
    fn statistics_are_those_of_the_kernel() {
        let rows = rows();
        let found = statistics(&tensor(&rows)).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (row, found) in rows.iter().zip(read(&found)) {
            let expected = softmax_stats(row);
            assert_eq!((found.max, found.argmax), (expected.max, expected.argmax));
            for (a, b) in [
                (found.logsumexp, expected.logsumexp),
                (found.top1, expected.top1),
                (found.top2, expected.top2),
                (found.entropy, expected.entropy),
            ] {
                assert!((a - b).abs() < 2e-5, "{found:?} {expected:?}");
            }
        }
    }

    #[test]
    fn a_row_that_is_no_distribution_is_told() {
        for bad in [f32::NAN, f32::NEG_INFINITY, f32::INFINITY] {
            let row = vec![vec![bad; 9]];
            let found = statistics(&tensor(&row)).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(read(&found).all(|s| !s.logsumexp.is_finite()), "{bad}");
        }
    }

    #[test]
    fn total_variation_is_that_of_the_kernel() {
        let rows = rows();
        let shifted: Vec<Vec<f32>> = rows.iter().map(|r| r.iter().rev().copied().collect()).collect();
        let found = total_variation(&tensor(&rows), &tensor(&shifted)).unwrap().to_vec1::<f32>().unwrap();
        for ((a, b), found) in rows.iter().zip(&shifted).zip(found) {
            let expected = kernel(a, softmax_stats(a).logsumexp, b, softmax_stats(b).logsumexp);
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn a_bias_reaches_its_rows_only() {
        let bias = device::Bias {
            ids: vec![(3, f32::NEG_INFINITY)],
            marked_ids: vec![(4, f32::NEG_INFINITY)],
            marked: vec![false, true, false],
        };
        let rows = tensor(&vec![vec![1.0; 6]; 2]);
        let added =
            Bias::new(&bias, 6, &Device::Cpu).unwrap().add(&rows, 1).unwrap().to_vec2::<f32>().unwrap();
        let hidden = |row: &[f32]| row.iter().map(|z| z.is_finite()).collect::<Vec<_>>();
        assert_eq!(hidden(&added[0]), [true, true, true, false, false, true]);
        assert_eq!(hidden(&added[1]), [true, true, true, false, true, true]);
    }
}
