//! Prints what the kernels reach on this machine, in units of CPU time so that a busy machine does not spoil it.
//!
//! `cargo run --release -p demask-kernels --example bench [gemm|attention|rows|int8|few]`; products are interleaved with
//! the `gemm` crate's, and the ratio of the medians is printed.
#![allow(unsafe_code, reason = "the gemm crate takes pointers, and so does the CPU clock")]
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;

use demask_kernels::{
    Heads, QuantizedWeights, Segment, Shape, Strided, Weights, attention, attention_backward, gemm,
    gemm_quantized, matmul, rms_norm, rms_norm_backward, rope, silu_gate, silu_gate_backward, softmax_stats,
    total_variation,
};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let (threads, isa) = (rayon::current_num_threads(), demask_kernels::isa().name());
    println!("threads: {threads}, {isa}, peak {:.1} GFLOPS", demask_kernels::peak_fma() / 1e9);
    if want("gemm") {
        println!(
            "GFLOPS per CPU second       a·wᵀ   (gemm) ratio   dyᵀ·x  (gemm) ratio    dy·w  (gemm) ratio"
        );
        for (m, k, n) in [
            (512, 3584, 18944),
            (64, 3584, 18944),
            (512, 3584, 3584),
            (8192, 256, 768),
            (8192, 768, 256),
            (4096, 128, 128),
            (16384, 128, 512),
            (4096, 256, 256),
            (96, 256, 768),
        ] {
            products(m, k, n);
        }
    }
    if want("int8") {
        println!("int8 peak {:.1} GOPS", demask_kernels::peak_int8() / 1e9);
        for (m, k, n, group) in [
            (512, 3584, 512, 32),
            (512, 3584, 512, 128),
            (512, 3584, 512, 256),
            (64, 3584, 512, 128),
            (512, 3584, 18944, 32),
            (512, 3584, 18944, 64),
            (512, 3584, 18944, 128),
            (512, 3584, 18944, 256),
            (64, 3584, 18944, 128),
            (32, 3584, 18944, 128),
            (1, 3584, 18944, 128),
            (512, 18944, 3584, 128),
            (4096, 256, 768, 64),
        ] {
            int8(m, k, n, group);
        }
    }
    if want("few") {
        let peaks = [demask_kernels::peak_int8(), demask_kernels::peak_four(), demask_kernels::bandwidth()];
        let [int8, four, memory] = peaks.map(|peak| peak / 1e9);
        println!("peak int8 {int8:.1}, q4 {four:.1} GOPS, memory {memory:.1} GB/s");
        for (k, n) in [(3584, 9472), (9472, 3584)] {
            for m in [1, 16, 32, 64, 512] {
                few(m, k, n, peaks);
            }
        }
    }
    if want("attention") {
        for (count, len, query, kv, dim) in
            [(100, 100, 4, 4, 32), (100, 100, 8, 4, 32), (100, 160, 4, 4, 64), (1, 512, 28, 4, 128)]
        {
            attend(count, len, Heads { query, kv, dim });
        }
    }
    if want("rows") {
        rows();
    }
}

fn products(m: usize, k: usize, n: usize) {
    let (x, w, dy) = (noise(m * k, 1), noise(n * k, 2), noise(m * n, 3));
    let (mut y, mut dw, mut dx) = (vec![0.0; m * n], vec![0.0; n * k], vec![0.0; m * k]);
    let flops = 2.0 * (m * k * n) as f64;
    print!("{m:>6}x{k:>5}x{n:>5} ");
    let (xs, ws, dys) = (Strided::rows(&x, k), Strided::rows(&w, k), Strided::rows(&dy, n));
    duel(
        flops,
        || gemm(&x, m, k, Weights::F32(&w), n, None, &mut y),
        || crates(Shape { m, n, k }, xs, ws.t()),
    );
    let shape = Shape { m: n, n: k, k: m };
    duel(flops, || matmul(shape, dys.t(), xs, &mut dw, false), || crates(shape, dys.t(), xs));
    let shape = Shape { m, n: k, k: n };
    duel(flops, || matmul(shape, dys, ws, &mut dx, false), || crates(shape, dys, ws));
    println!();
}

/// Interleaves the two and prints both speeds and their ratio.
fn duel(flops: f64, mut ours: impl FnMut(), mut theirs: impl FnMut()) {
    let (mut a, mut b) = (vec![], vec![]);
    for _ in 0..((2e10 / flops) as usize).clamp(3, 100) {
        a.push(cpu_time(&mut ours));
        b.push(cpu_time(&mut theirs));
    }
    let (a, b) = (flops / median(a) / 1e9, flops / median(b) / 1e9);
    print!(" {a:>7.1} {b:>7.1} {:>5.2} ", a / b);
}

/// The `gemm` crate's product, into memory of its own that is kept between calls.
fn crates(shape: Shape, a: Strided<'_>, b: Strided<'_>) {
    thread_local!(static OUT: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(vec![]) });
    let Shape { m, n, k } = shape;
    OUT.with_borrow_mut(|c| {
        c.resize(c.len().max(m * n), 0.0);
        let parallelism = gemm::Parallelism::Rayon(0);
        let (ar, ac, br, bc) = (a.row as isize, a.col as isize, b.row as isize, b.col as isize);
        // SAFETY: the views cover their shapes and c has room for m x n.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                c.as_mut_ptr(),
                1,
                n as isize,
                false,
                a.data.as_ptr(),
                ac,
                ar,
                b.data.as_ptr(),
                bc,
                br,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
    });
}

fn int8(m: usize, k: usize, n: usize, group: usize) {
    let (x, w) = (noise(m * k, 1), noise(n * k, 2));
    let w = QuantizedWeights::quantize(Weights::F32(&w), n, k, group).expect("a valid group");
    let mut y = vec![0.0; m * n];
    let operations = 2.0 * (m * k * n) as f64;
    let times = (0..((1e11 / operations) as usize).clamp(5, 100))
        .map(|_| cpu_time(|| gemm_quantized(&x, m, &w, None, &mut y)));
    let times: Vec<f64> = times.collect();
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let time = median(times);
    println!(
        "{m:>6}x{k:>5}x{n:>5} group {group}: {:.3} ms, {:.1} GOPS per CPU second, at best {:.1}",
        time * 1e3,
        operations / time / 1e9,
        operations / best / 1e9
    );
}

/// Bytes and four bits in turn; shares are of the smaller of peak and memory.
fn few(m: usize, k: usize, n: usize, [int8, four, memory]: [f64; 3]) {
    let (x, w) = (noise(m * k, 1), noise(n * k, 2));
    let bytes = QuantizedWeights::quantize(Weights::F32(&w), n, k, 128).expect("a valid group");
    let nibbles =
        |group| QuantizedWeights::quantize_four(Weights::F32(&w), n, k, group, None).expect("a valid group");
    let scaled = QuantizedWeights::quantize_scaled(Weights::F32(&w), n, k, 128, None).expect("a valid group");
    let all = [
        ("int8 128", bytes, int8),
        ("q4 32", nibbles(32), four),
        ("q4 128", nibbles(128), four),
        ("q4 factors", scaled, int8),
    ];
    let mut y = vec![0.0; m * n];
    let operations = 2.0 * (m * k * n) as f64;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..((5e10 / operations) as usize).clamp(5, 60) {
        for (times, (_, w, _)) in times.iter_mut().zip(&all) {
            times.push(cpu_time(|| gemm_quantized(&x, m, w, None, &mut y)));
        }
    }
    print!("{m:>6}x{k:>5}x{n:>5}");
    for (times, (name, w, peak)) in times.into_iter().zip(&all) {
        let limit = peak.min(operations * memory / (w.size_in_bytes() + 4 * m * (k + n)) as f64);
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let rate = operations / median(times);
        let (share, at_best) = (100.0 * rate / limit, 100.0 * operations / best / limit);
        print!("  {name}: {:.1} GOPS, {share:.0} % of the limit, {at_best:.0} at best", rate / 1e9);
    }
    println!();
}

fn attend(count: usize, len: usize, heads: Heads) {
    let segments: Vec<Segment> = (0..count)
        .map(|i| Segment { q: i * len..(i + 1) * len, k: i * len..(i + 1) * len, causal_offset: None })
        .collect();
    let (q_len, k_len) = (count * len * heads.query * heads.dim, count * len * heads.kv * heads.dim);
    let (q, k, v, pull) = (noise(q_len, 1), noise(k_len, 2), noise(k_len, 3), noise(q_len, 4));
    let (mut out, mut lse) = (vec![0.0; q_len], vec![0.0; q_len / heads.dim]);
    let (mut gq, mut gk, mut gv) = (vec![0.0; q_len], vec![0.0; k_len], vec![0.0; k_len]);
    let flops = 4.0 * (count * len * len * heads.query * heads.dim) as f64;
    let (mut forward, mut backward) = (vec![], vec![]);
    for _ in 0..20 {
        forward.push(cpu_time(|| attention(&q, &k, &v, heads, &segments, &mut out, Some(&mut lse))));
        backward.push(cpu_time(|| {
            attention_backward(&q, &k, &v, &out, &lse, &pull, heads, &segments, &mut gq, &mut gk, &mut gv);
        }));
    }
    let (forward, backward) = (median(forward), median(backward));
    println!(
        "attention {count}x{len} {heads:?}: forward {:.2} ms {:.1} GFLOPS, backward {:.2} ms {:.1} GFLOPS",
        forward * 1e3,
        flops / forward / 1e9,
        backward * 1e3,
        2.5 * flops / backward / 1e9
    );
}

fn rows() {
    let (a, b) = (noise(152_064, 1), noise(152_064, 2));
    report("softmax_stats 152064", a.len(), || {
        std::hint::black_box(softmax_stats(&a));
    });
    report("total_variation 152064", a.len(), || {
        std::hint::black_box(total_variation(&a, 12.0, &b, 12.0));
    });
    let (rows, width) = (8192, 256);
    let (x, w, g) = (noise(rows * width, 1), noise(width, 2), noise(rows * width, 3));
    let (mut y, mut z, mut gw) = (vec![0.0; x.len()], vec![0.0; x.len()], vec![0.0; width]);
    report("rms_norm 8192x256", x.len(), || rms_norm(&x, &w, 1e-6, &mut y));
    report("rms_norm_backward", x.len(), || rms_norm_backward(&x, &w, 1e-6, &g, &mut y, &mut gw));
    report("silu_gate", x.len(), || silu_gate(&x, &g, &mut y));
    report("silu_gate_backward", x.len(), || silu_gate_backward(&x, &g, &x, &mut y, &mut z));
    let positions: Vec<u32> = (0..rows as u32).map(|i| i % 128).collect();
    report("rope", y.len(), || rope(&mut y, &positions, 8, 32, 1e4, false));
}

fn report(name: &str, elements: usize, mut body: impl FnMut()) {
    let times: Vec<f64> = (0..30).map(|_| cpu_time(&mut body)).collect();
    let time = median(times);
    println!("{name}: {:.3} ms, {:.2} G elements per CPU second", time * 1e3, elements as f64 / time / 1e9);
}

fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Seconds of CPU the process spent; on one thread this is the time on an idle machine.
fn cpu_time(mut body: impl FnMut()) -> f64 {
    let clock = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid clock and a valid place for its time.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let (start, wall) = (clock(), Instant::now());
    body();
    (clock() - start).min(wall.elapsed().as_secs_f64() * 1e3)
}

fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}
