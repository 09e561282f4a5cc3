//! Where training computes: by the kernels of the CPU, or by candle's own operations on any device, of which the CPU is
//! one too (the reference device, on which that path is tested).

use candle_core::Device;

/// A place to compute.
#[derive(Debug, Clone)]
pub struct Compute {
    device: Device,
    composed: bool,
}

impl Compute {
    /// The CPU with the kernels of this project.
    pub const CPU: Self = Self { device: Device::Cpu, composed: false };

    /// A device; of the CPU, whether candle's own operations take the place of the kernels.
    pub fn on(device: Device, composed: bool) -> Self {
        let composed = composed || !device.is_cpu();
        Self { device, composed }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether candle's own operations compute.
    pub fn is_composed(&self) -> bool {
        self.composed
    }
}
