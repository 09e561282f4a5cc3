//! Prints what the kernels reach on this machine; products are interleaved with the `gemm` crate's.
#![allow(unsafe_code, reason = "the gemm crate takes pointers")]
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use std::time::Instant;

use demask_kernels::{Shape, Strided, Weights, gemm, matmul};

fn main() {
    let quick = std::env::args().any(|a| a == "quick");
    println!("{:>7} {:>6} {:>6}  {:>8} {:>8} {:>6}", "m", "k", "n", "ours", "gemm", "ratio");
    for (m, k, n) in [
        (512, 3584, 18944),
        (64, 3584, 18944),
        (512, 3584, 3584),
        (8192, 256, 768),
        (8192, 768, 256),
        (4096, 128, 128),
        (16384, 128, 512),
        (4096, 256, 256),
    ] {
        if quick && k * n > 1 << 26 {
            continue;
        }
        product(m, k, n, quick);
    }
}

fn product(m: usize, k: usize, n: usize, _quick: bool) {
    let a = noise(m * k, 1);
    let w = noise(n * k, 2);
    let mut c = vec![0.0; m * n];
    let mut d = vec![0.0; m * n];
    let flops = 2.0 * (m * k * n) as f64;
    let repeats = ((2e10 / flops) as usize).clamp(3, 200);
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..repeats {
        ours.push(time(|| gemm(&a, m, k, Weights::F32(&w), n, None, &mut c)));
        theirs.push(time(|| reference(m, n, k, &a, &w, &mut d)));
    }
    let worst = c.iter().zip(&d).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let (ours, theirs) = (flops / median(ours) / 1e9, flops / median(theirs) / 1e9);
    println!("{m:>7} {k:>6} {n:>6}  {ours:>8.1} {theirs:>8.1} {:>6.2} (worst {worst:.1e})", ours / theirs);
    let mut grad = vec![0.0; n * k];
    let shape = Shape { m: n, n: k, k: m };
    let mut runs = vec![];
    for _ in 0..repeats {
        runs.push(time(|| matmul(shape, Strided::rows(&c, n).t(), Strided::rows(&a, k), &mut grad, false)));
    }
    println!("   grad_w {:.1}", flops / median(runs) / 1e9);
    let mut grad = vec![0.0; m * k];
    let shape = Shape { m, n: k, k: n };
    let mut runs = vec![];
    for _ in 0..repeats {
        runs.push(time(|| matmul(shape, Strided::rows(&c, n), Strided::rows(&w, k), &mut grad, false)));
    }
    println!("   grad_x {:.1}", flops / median(runs) / 1e9);
}

fn reference(m: usize, n: usize, k: usize, a: &[f32], w: &[f32], c: &mut [f32]) {
    // SAFETY: the slices have the lengths the strides reach.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            w.as_ptr(),
            k as isize,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::Rayon(0),
        );
    }
}

fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}
fn time(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}
fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}
