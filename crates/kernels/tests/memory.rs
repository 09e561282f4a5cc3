//! What was freed goes back to the system, whichever thread had it. Alone in its file: it looks at the whole process.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::sync::Barrier;

use demask_kernels::{give_back_memory, reuse_freed_memory};

const THREADS: usize = 6;
const BLOCKS: usize = 16;

/// Resident memory in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn memory_that_threads_freed_goes_back() {
    reuse_freed_memory();
    let before = resident();
    let step = Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|i| vec![i as u8 | 1; 1 << 20]).collect();
                step.wait();
                step.wait();
                drop(blocks);
                step.wait();
                // It lives on, as a thread of a pool does.
                step.wait();
            });
        }
        step.wait();
        let full = resident();
        step.wait();
        step.wait();
        let kept = resident();
        give_back_memory();
        let after = resident();
        step.wait();
        let all = (THREADS * BLOCKS) as u64;
        assert!(full >= before + all, "{before} MiB before, {full} with {all} more");
        assert!(kept >= before + all / 2, "{kept} MiB after freeing: nothing is kept for the next pass");
        assert!(after < before + all / 8, "{before} MiB before, {after} after giving {kept} back");
    });
}
