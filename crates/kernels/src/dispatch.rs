//! Which instruction set runs, decided once per operation call from what the CPU has (or what a test forced).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::arch::generic::Generic;
use crate::arch::{Op, Simd};
#[cfg(target_arch = "x86_64")]
use crate::arch::{avx2::Avx2, avx512::Avx512};

/// Instruction sets the kernels are written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// Plain Rust, the specification of the others.
    Generic = 1,
    /// AVX2 with FMA and F16C.
    Avx2 = 2,
    /// AVX-512F.
    Avx512 = 3,
}

impl Isa {
    /// Every instruction set, slowest first.
    pub const ALL: [Self; 3] = [Self::Generic, Self::Avx2, Self::Avx512];

    /// Whether this CPU has it.
    pub fn available(self) -> bool {
        Level::of(self).is_some()
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// The forced set as its discriminant, 0 if none.
static FORCED: AtomicU8 = AtomicU8::new(0);

/// Makes every later call of the process use `isa`; `None` returns to the best one. False, and no change, if the CPU
/// does not have it.
pub fn force(isa: Option<Isa>) -> bool {
    if isa.is_some_and(|isa| !isa.available()) {
        return false;
    }
    FORCED.store(isa.map_or(0, |isa| isa as u8), Ordering::Relaxed);
    true
}

/// The instruction set in use.
pub fn isa() -> Isa {
    static BEST: OnceLock<Isa> = OnceLock::new();
    let forced = FORCED.load(Ordering::Relaxed);
    let forced = Isa::ALL.into_iter().find(|&isa| isa as u8 == forced);
    forced.unwrap_or_else(|| {
        *BEST.get_or_init(|| Isa::ALL.into_iter().rfind(|isa| isa.available()).unwrap_or(Isa::Generic))
    })
}

/// An instruction set together with the proof that the CPU has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Generic(Generic),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Level {
    /// The one in use.
    pub(crate) fn active() -> Self {
        static LEVELS: OnceLock<[Option<Level>; 3]> = OnceLock::new();
        let levels = LEVELS.get_or_init(|| Isa::ALL.map(Self::of));
        levels[isa() as usize - 1].unwrap_or(Self::Generic(Generic))
    }

    fn of(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Generic => Some(Self::Generic(Generic)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::new().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::new().map(Self::Avx512),
            #[cfg(not(target_arch = "x86_64"))]
            _ => None,
        }
    }

    /// Evaluates `op` with the instructions enabled.
    #[inline]
    pub(crate) fn run<O: Op>(self, op: O) -> O::Out {
        match self {
            Self::Generic(simd) => simd.isolate(op),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.isolate(op),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.isolate(op),
        }
    }
}
