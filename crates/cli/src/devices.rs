//! What follows `--device`: one device, or several that share the work.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use candle_core::Device;
use demask::train::compute::Compute;

/// Devices in the order of the flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices(Vec<Named>);

/// A device, or all of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The CPU with the kernels of this project.
    Cpu,
    /// The CPU with candle's own operations, as every other device has them: the reference device.
    Candle,
    /// NVIDIA.
    Cuda(Which),
    /// Apple.
    Metal(Which),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Number(usize),
    All,
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let devices =
            text.split(',').map(|name| name.trim().parse()).collect::<Result<Vec<Named>, String>>()?;
        if devices.len() > 1 && devices.contains(&Named::Cpu) {
            return Err("cpu uses all cores by itself; give it alone (--threads says how many)".into());
        }
        Ok(Self(devices))
    }
}

impl FromStr for Named {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
        let which = match number {
            "all" => Some(Which::All),
            number => number.parse().ok().map(Which::Number),
        };
        match (kind, which) {
            ("cpu", _) if name == "cpu" => Ok(Self::Cpu),
            ("candle", _) if name == "candle" => Ok(Self::Candle),
            ("cuda", Some(which)) => Ok(Self::Cuda(which)),
            ("metal", Some(which)) => Ok(Self::Metal(which)),
            _ => {
                Err(format!("{name:?} is no device; known are cpu, candle, cuda[:N|:all] and metal[:N|:all]"))
            }
        }
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Candle => f.write_str("candle"),
            Self::Cuda(which) => write!(f, "cuda{which}"),
            Self::Metal(which) => write!(f, "metal{which}"),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, ":{number}"),
            Self::All => f.write_str(":all"),
        }
    }
}

impl Devices {
    /// Whether it is the CPU with the kernels of this project.
    pub fn is_cpu(&self) -> bool {
        self.0 == [Named::Cpu]
    }

    /// The one device of something that cannot share its work, and whether there are more, which it leaves alone.
    pub fn first(&self) -> Result<(Compute, bool)> {
        let mut opened = self.open()?;
        let more = opened.len() > 1;
        let (device, composed) = opened.swap_remove(0);
        Ok((Compute::on(device, composed), more))
    }

    /// Opens them; beside each, whether layers are composed of candle's operations although it is the CPU.
    pub fn open(&self) -> Result<Vec<(Device, bool)>> {
        let mut opened = Vec::new();
        for named in &self.0 {
            match *named {
                Named::Cpu => opened.push((Device::Cpu, false)),
                Named::Candle => opened.push((Device::Cpu, true)),
                Named::Cuda(_) if !cfg!(feature = "cuda") => {
                    bail!("this build has no CUDA; build it with --features cuda")
                }
                Named::Metal(_) if !cfg!(feature = "metal") => {
                    bail!("this build has no Metal; build it with --features metal")
                }
                Named::Cuda(which) => opened.extend(which.open("CUDA", Device::new_cuda)?),
                Named::Metal(which) => opened.extend(which.open("Metal", Device::new_metal)?),
            }
        }
        Ok(opened)
    }
}

impl Which {
    fn open(
        self,
        kind: &str,
        open: impl Fn(usize) -> candle_core::Result<Device>,
    ) -> Result<Vec<(Device, bool)>> {
        let first = match self {
            Self::Number(number) => number,
            Self::All => 0,
        };
        let device = open(first).with_context(|| format!("cannot open {kind} device {first}"))?;
        let mut all = vec![(device, false)];
        if self == Self::All {
            // There is no count to ask for: they are numbered without gaps.
            all.extend((1..64).map_while(|number| open(number).ok()).map(|device| (device, false)));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["cpu", "candle", "candle,candle", "cuda:0", "cuda:0,cuda:3", "cuda:all", "metal:1"] {
            assert_eq!(text.parse::<Devices>().unwrap().to_string(), text);
        }
        assert_eq!("cuda".parse::<Devices>().unwrap().to_string(), "cuda:0");
        for bad in ["gpu", "cuda:x", "cpu:1", "cpu,candle", ""] {
            assert!(bad.parse::<Devices>().is_err(), "{bad}");
        }
        assert_eq!("candle,candle".parse::<Devices>().unwrap().open().unwrap().len(), 2);
    }
}
