//! `demask bench blocks`: what a pass over a block costs when the finished blocks before it are kept, and when they are
//! computed again.

use anyhow::Result;
use demask::counted;
use demask::model::{Backbone as _, Grid, KvCache, Query, Reuse, Transformer};
use demask::plot::{Mark, Series};

use super::measure::alternate;
use super::model::{Canvas, ModelShape};
use super::report::{Cell, Report};
use super::{Common, Threads};

/// A pass over a block behind finished ones: kept, and computed again
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    shape: ModelShape,
    /// Rows of a block
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    block_length: u16,
    /// Rows before the block
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "0,256,512,1024,2016")]
    before: Vec<usize>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    threads: Threads,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    args.threads.set()?;
    let spec = args.shape.spec(Some(4))?;
    let model = args.shape.build(spec.clone())?;
    let length = usize::from(args.block_length);
    let grid = Grid::new(0, length);
    let mut report = Report::new("blocks", &["rows before", "kept, s", "computed again, s", "times"]);
    let (mut kept_points, mut again_points) = (Vec::new(), Vec::new());
    for &before in &args.before {
        let before = before / length * length;
        let canvas = Canvas::new(&spec, before + length, length);
        let mut cache = KvCache::new();
        if before > 0 {
            let rows: Vec<usize> = (0..before).collect();
            pass(&model, &canvas, grid, Some((&mut cache, &rows)), &[])?;
        }
        let block: Vec<usize> = (before..before + length).collect();
        let samples = alternate(args.common.repeats, 2, |index| match index {
            0 => pass(&model, &canvas, grid, Some((&mut cache, &block)), &block),
            _ => pass(&model, &canvas, grid, None, &block),
        })?;
        let (kept, again) = (samples[0].wall(), samples[1].wall());
        kept_points.push((before as f64, kept.median));
        again_points.push((before as f64, again.median));
        let times = again.median / kept.median;
        report.rows.push(vec![
            Cell::Count(before),
            Cell::Spread(kept, 3),
            Cell::Spread(again, 3),
            Cell::Number(times, 1),
        ]);
    }
    report.note(
        "layers",
        spec.layers as f64,
        format!("{}, {:?}, without the head", counted(spec.layers, "layer"), args.shape.dtype),
    );
    report.chart.title = format!("a pass over a block of {length}, {}", counted(spec.layers, "layer"));
    report.chart.x = "rows before the block".into();
    report.chart.y = "s".into();
    report.chart.series.push(Series { label: "kept".into(), mark: Mark::Line, points: kept_points });
    report.chart.series.push(Series {
        label: "computed again".into(),
        mark: Mark::Line,
        points: again_points,
    });
    report.show(&args.common.output)
}

fn pass(
    model: &Transformer,
    canvas: &Canvas,
    grid: Grid,
    cache: Option<(&mut KvCache, &[usize])>,
    predict: &[usize],
) -> Result<()> {
    let cache = cache.map(|(cache, rows)| Reuse { cache, rows });
    let query = Query { tokens: &canvas.tokens, predict, cache, blocks: Some(grid), ..Query::default() };
    std::hint::black_box(model.forward(&mut [query])?);
    Ok(())
}
