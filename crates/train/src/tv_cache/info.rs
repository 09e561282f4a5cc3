//! What is in a cache: counts, the distribution of D, its profile over distance.

use std::fmt;
use std::path::Path;

use half::f16;

use super::figure::InfoFigure;
use super::manifest::Manifest;
use super::profile::{Distances, Repeats};
use super::read::{Cache, Columns};
use super::states::States;
use crate::error::Result;
use demask_engine::counted;

/// Half-precision numbers from 0 to 1, by their bits.
const VALUES: usize = 0x3C00 + 1;
/// Largest matrix worth a heat map.
const PICTURED: usize = 40;

/// Statistics of a cache.
#[derive(Debug, Clone)]
pub struct Info {
    /// Table of contents.
    pub manifest: Manifest,
    /// Fewest, mean and most masked positions of an example.
    pub masked: (usize, f64, usize),
    /// Mean of the off-diagonal entries.
    pub mean: f64,
    /// Their variance: the error of the best constant.
    pub variance: f64,
    /// Variance over draws of one mask, where masks were drawn twice.
    pub irreducible: Option<f64>,
    /// Mean by distance.
    pub distances: Distances,
    /// How often each half-precision value occurs.
    counts: Vec<u64>,
    /// An example for the heat map: its matrix and size.
    sample: (Vec<f32>, usize),
}

impl Info {
    /// Reads every matrix of a cache once.
    pub fn of(cache: &Cache) -> Result<Self> {
        let measured = cache.header().settings.measures_dependency();
        let mut tally = Tally { fewest: usize::MAX, counts: vec![0; VALUES], ..Tally::default() };
        let columns = Columns { dependency: true, ..Columns::default() };
        for file in 0..cache.manifest().files.len() {
            for example in cache.read(file, columns)? {
                if !measured {
                    tally.add_masks(example.positions.len());
                    continue;
                }
                tally.add(&example.id, example.mask, &example.positions, example.dependency.to_f32());
            }
        }
        let pairs = cache.manifest().pairs().max(1) as f64;
        let mean = tally.sum / pairs;
        Ok(Self {
            masked: (tally.fewest, tally.masked as f64 / cache.manifest().examples() as f64, tally.most),
            mean,
            variance: (tally.squares / pairs - mean * mean).max(0.0),
            irreducible: tally.repeats.variance(),
            distances: tally.distances,
            counts: tally.counts,
            sample: tally.sample,
            manifest: cache.manifest().clone(),
        })
    }

    /// The smallest value that at least this share of the pairs does not exceed.
    pub fn quantile(&self, share: f64) -> f32 {
        let total: u64 = self.counts.iter().sum();
        let mut below = 0;
        for (bits, count) in self.counts.iter().enumerate() {
            below += count;
            if below as f64 >= share * total as f64 && below > 0 {
                return f16::from_bits(bits as u16).to_f32();
            }
        }
        1.0
    }

    /// Share of the pairs in each of `bins` equal intervals of 0..1.
    pub fn histogram(&self, bins: usize) -> Vec<f64> {
        let mut histogram = vec![0.0; bins];
        let total: u64 = self.counts.iter().sum();
        for (bits, &count) in self.counts.iter().enumerate() {
            let value = f16::from_bits(bits as u16).to_f32();
            histogram[((value * bins as f32) as usize).min(bins - 1)] += count as f64 / total.max(1) as f64;
        }
        histogram
    }

    /// Draws `path` with the endings `.svg` and `.png`.
    pub fn draw(&self, path: &Path) -> Result<()> {
        Ok(demask_plot::write(path, &InfoFigure { info: self, matrix: &self.sample.0, size: self.sample.1 })?)
    }
}

#[derive(Default)]
struct Tally {
    fewest: usize,
    most: usize,
    masked: usize,
    sum: f64,
    squares: f64,
    counts: Vec<u64>,
    distances: Distances,
    repeats: Repeats,
    sample: (Vec<f32>, usize),
    last: (String, u32, Vec<f32>),
}

impl Tally {
    fn add_masks(&mut self, size: usize) {
        self.fewest = self.fewest.min(size);
        self.most = self.most.max(size);
        self.masked += size;
    }

    fn add(&mut self, id: &str, mask: u32, positions: &[usize], dependency: Vec<f32>) {
        let size = positions.len();
        self.add_masks(size);
        for (index, &value) in dependency.iter().enumerate().filter(|(index, _)| index / size != index % size)
        {
            debug_assert!(index < size * size, "a dependency matrix is square");
            self.sum += f64::from(value);
            self.squares += f64::from(value).powi(2);
            self.counts[usize::from(f16::from_f32(value).to_bits()).min(VALUES - 1)] += 1;
        }
        self.distances.add(positions, &dependency);
        if size > self.sample.1 && (size <= PICTURED || self.sample.1 == 0) {
            self.sample = (dependency.clone(), size);
        }
        if self.last.0 == id && self.last.1 == mask {
            self.repeats.add(&self.last.2, &dependency, size);
        }
        self.last = (id.to_owned(), mask, dependency);
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (manifest, header) = (&self.manifest, &self.manifest.header);
        writeln!(
            f,
            "backbone   {} {}, d = {}, vocabulary {}",
            header.architecture, header.backbone, header.d, header.vocab
        )?;
        writeln!(
            f,
            "content    {}, {}, {} in {}; {} refused",
            counted(manifest.responses(), "response"),
            counted(manifest.examples(), "example"),
            counted(manifest.pairs() as usize, "pair"),
            counted(manifest.files.len(), "file"),
            counted(manifest.refused(), "row")
        )?;
        writeln!(
            f,
            "masked     {} to {}, mean {:.1} per example",
            self.masked.0, self.masked.2, self.masked.1
        )?;
        if let States::Decoder(visits) = &header.settings.states {
            writeln!(f, "states     visited by {}", visits.strategy)?;
        }
        if let Some(labelling) = header.settings.stability {
            let labels = counted(manifest.labels() as usize, "unsure position");
            writeln!(f, "labels     {labels}, where what is above {} was revealed", labelling.gamma)?;
        }
        if !header.settings.measures_dependency() {
            return Ok(());
        }
        writeln!(
            f,
            "D          mean {:.5}, variance {:.6} (the error of the best constant)",
            self.mean, self.variance
        )?;
        if let Some(variance) = self.irreducible {
            writeln!(
                f,
                "           variance over draws {variance:.6} (no predictor of the mean is below this)"
            )?;
        }
        let quantiles =
            [0.1, 0.25, 0.5, 0.75, 0.9, 0.99].map(|q| format!("{:.0} % {:.4}", q * 100.0, self.quantile(q)));
        writeln!(f, "quantiles  {}", quantiles.join(", "))?;
        let (before, after) = (self.distances.before(), self.distances.after());
        let at = |means: &[(usize, f64)], distance: usize| {
            means.iter().find(|m| m.0 == distance).map_or("-".to_owned(), |m| format!("{:.4}", m.1))
        };
        writeln!(f, "distance   mean D where the revealed position stands before | after the affected one")?;
        for distance in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256] {
            if before.iter().chain(&after).any(|m| m.0 == distance) {
                writeln!(f, "  {distance:>7}  {} | {}", at(&before, distance), at(&after, distance))?;
            }
        }
        Ok(())
    }
}
