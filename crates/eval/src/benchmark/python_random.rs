//! Python's `random.Random(seed).sample`, because lm-evaluation-harness draws GSM8K's shots with it: the Mersenne Twister
//! (MT19937) seeded from one word, and CPython's way of drawing without repetition.

use std::collections::HashSet;

const N: usize = 624;
const M: usize = 397;

/// CPython's generator.
pub(super) struct PythonRandom {
    state: [u32; N],
    next: usize,
}

impl PythonRandom {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [0_u32; N];
        state[0] = 19_650_218;
        for i in 1..N {
            let last = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        // `init_by_array` with the one key.
        let mut i = 1;
        for _ in 0..N {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ (last >> 30)).wrapping_mul(1_664_525)).wrapping_add(seed);
            i = step(&mut state, i);
        }
        for _ in 0..N - 1 {
            let last = state[i - 1];
            state[i] = (state[i] ^ (last ^ (last >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i = step(&mut state, i);
        }
        state[0] = 0x8000_0000;
        Self { state, next: N }
    }

    fn word(&mut self) -> u32 {
        if self.next == N {
            for i in 0..N {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
                let twist = if y & 1 == 0 { 0 } else { 0x9908_b0df };
                self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn below(&mut self, n: usize) -> usize {
        let bits = usize::BITS - n.leading_zeros();
        loop {
            let drawn = (self.word() >> (32 - bits)) as usize;
            if drawn < n {
                return drawn;
            }
        }
    }

    /// `k` different numbers below `n`.
    pub(super) fn sample(&mut self, n: usize, k: usize) -> Vec<usize> {
        let k = k.min(n);
        let mut set_size = 21;
        if k > 5 {
            set_size += 4_usize.pow(((k * 3) as f64).log(4.0).ceil() as u32);
        }
        if n <= set_size {
            let mut pool: Vec<usize> = (0..n).collect();
            return (0..k)
                .map(|i| {
                    let j = self.below(n - i);
                    let drawn = pool[j];
                    pool[j] = pool[n - i - 1];
                    drawn
                })
                .collect();
        }
        let mut seen = HashSet::new();
        let mut drawn = Vec::with_capacity(k);
        while drawn.len() < k {
            let j = self.below(n);
            if seen.insert(j) {
                drawn.push(j);
            }
        }
        drawn
    }
}

fn step(state: &mut [u32; N], i: usize) -> usize {
    if i + 1 < N {
        return i + 1;
    }
    state[0] = state[N - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::PythonRandom;

    /// From CPython 3.11: `r = random.Random(1234); r.sample(range(7473), 5)` twice, then `r.sample(range(10), 3)`.
    #[test]
    fn draws_what_python_draws() {
        let mut random = PythonRandom::new(1234);
        assert_eq!(random.sample(7473, 5), PYTHON[0]);
        assert_eq!(random.sample(7473, 5), PYTHON[1]);
        assert_eq!(random.sample(10, 3), PYTHON[2]);
        assert_eq!(random.sample(100, 8), PYTHON[3]);
    }

    const PYTHON: [&[usize]; 4] = [
        &[6374, 3610, 957, 61, 742],
        &[7462, 6610, 4769, 286, 5501],
        &[1, 9, 5],
        &[30, 2, 3, 44, 82, 79, 61, 78],
    ];
}
