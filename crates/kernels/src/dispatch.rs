//! Which instruction set runs, decided once per operation call from what the CPU has (or what a test forced).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::arch::generic::Generic;
use crate::arch::{Evaluate, Nibbles, Op, Scaled, Simd, WithDot};
#[cfg(target_arch = "x86_64")]
use crate::arch::{
    Maddubs,
    avx2::Avx2,
    avx512::Avx512,
    vnni::{Avx512Vnni, AvxVnni},
};

/// Instruction sets the kernels are written for, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// Plain Rust, the specification of the others.
    Generic = 1,
    /// AVX2 with FMA and F16C.
    Avx2 = 2,
    /// AVX2 with the byte products of AVX-VNNI.
    AvxVnni = 3,
    /// AVX-512F.
    Avx512 = 4,
    /// AVX-512F with the byte products of AVX-512-VNNI.
    Avx512Vnni = 5,
}

impl Isa {
    /// Every instruction set, slowest first.
    pub const ALL: [Self; 5] = [Self::Generic, Self::Avx2, Self::AvxVnni, Self::Avx512, Self::Avx512Vnni];

    /// Whether this CPU has it.
    pub fn available(self) -> bool {
        Level::of(self).is_some()
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512-vnni",
        }
    }
}

/// The forced set as its discriminant, 0 if none.
static FORCED: AtomicU8 = AtomicU8::new(0);

/// Makes every later call of the process use `isa`; `None` returns to the best one. Returns false and changes nothing
/// if the CPU does not have it.
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

/// An instruction set together with the proof that the CPU has it: one for `f32`, one for bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    float: Float,
    bytes: Bytes,
}

#[derive(Clone, Copy, Debug)]
enum Float {
    Generic(Generic),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

#[derive(Clone, Copy, Debug)]
enum Bytes {
    Generic(Generic),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
}

impl Level {
    const GENERIC: Self = Self { float: Float::Generic(Generic), bytes: Bytes::Generic(Generic) };

    /// The one in use.
    pub(crate) fn active() -> Self {
        static LEVELS: OnceLock<[Option<Level>; 5]> = OnceLock::new();
        let levels = LEVELS.get_or_init(|| Isa::ALL.map(Self::of));
        levels[isa() as usize - 1].unwrap_or(Self::GENERIC)
    }

    #[cfg(target_arch = "x86_64")]
    fn of(isa: Isa) -> Option<Self> {
        Some(match isa {
            Isa::Generic => Self::GENERIC,
            Isa::Avx2 => Self { float: Float::Avx2(Avx2::new()?), bytes: Bytes::Avx2(Avx2::new()?) },
            Isa::AvxVnni => Self { float: Float::Avx2(Avx2::new()?), bytes: Bytes::AvxVnni(AvxVnni::new()?) },
            Isa::Avx512 => Self { float: Float::Avx512(Avx512::new()?), bytes: Bytes::Avx2(Avx2::new()?) },
            Isa::Avx512Vnni => {
                Self { float: Float::Avx512(Avx512::new()?), bytes: Bytes::Avx512Vnni(Avx512Vnni::new()?) }
            }
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of(isa: Isa) -> Option<Self> {
        (isa == Isa::Generic).then_some(Self::GENERIC)
    }

    /// Evaluates `op` with the instructions enabled.
    #[inline]
    pub(crate) fn run<O: Op>(self, op: O) -> O::Out {
        match self.float {
            Float::Generic(simd) => simd.isolate(op),
            #[cfg(target_arch = "x86_64")]
            Float::Avx2(simd) => simd.isolate(op),
            #[cfg(target_arch = "x86_64")]
            Float::Avx512(simd) => simd.isolate(op),
        }
    }

    /// Tells `op` the byte products.
    pub(crate) fn with_bytes<O: WithDot>(self, op: O) -> O::Out {
        match self.bytes {
            Bytes::Generic(dot) => op.with(dot),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx2(dot) => op.with(dot),
            #[cfg(target_arch = "x86_64")]
            Bytes::AvxVnni(dot) => op.with(dot),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx512Vnni(dot) => op.with(dot),
        }
    }

    /// Tells `op` the products with weights of four bits.
    pub(crate) fn with_nibbles<O: WithDot>(self, op: O) -> O::Out {
        match self.bytes {
            Bytes::Generic(dot) => op.with(Nibbles(dot)),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx2(simd) => op.with(Maddubs(simd)),
            #[cfg(target_arch = "x86_64")]
            Bytes::AvxVnni(dot) => op.with(Nibbles(dot)),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx512Vnni(dot) => op.with(Nibbles(dot)),
        }
    }

    /// Tells `op` the products with weights of four bits and factors.
    pub(crate) fn with_scaled<O: WithDot>(self, op: O) -> O::Out {
        match self.bytes {
            Bytes::Generic(dot) => op.with(Scaled(dot)),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx2(dot) => op.with(Scaled(dot)),
            #[cfg(target_arch = "x86_64")]
            Bytes::AvxVnni(dot) => op.with(Scaled(dot)),
            #[cfg(target_arch = "x86_64")]
            Bytes::Avx512Vnni(dot) => op.with(Scaled(dot)),
        }
    }
}

impl Evaluate for Level {
    #[inline]
    fn evaluate<O: Op>(self, op: O) -> O::Out {
        self.run(op)
    }
}
