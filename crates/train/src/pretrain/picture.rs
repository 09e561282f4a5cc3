//! The curve as an SVG: loss on a logarithmic axis above, validation scores below. Text only, no font needed.

use std::fmt::Write as _;

use super::config::Objective;
use super::curve::Curve;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 150.0;
const PANEL: f64 = 240.0;
const TOP: f64 = 30.0;
const GAP: f64 = 50.0;
const COLOURS: [&str; 8] =
    ["#1b6ca8", "#d1495b", "#2e933c", "#8e6c8a", "#e08e00", "#3d5a80", "#6b705c", "#b5179e"];

/// Draws the whole record.
pub(super) fn svg(curve: &Curve) -> String {
    let height = TOP + 2.0 * PANEL + GAP + 40.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let last = curve.points.last().map_or(1, |point| point.step).max(1);
    let last = curve.scores.last().map_or(last, |(step, _)| last.max(*step)) as f64;
    loss_panel(&mut out, curve, last);
    score_panel(&mut out, curve, last);
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{}\">updates: 0 … {last}</text>\n</svg>", height - 12.0);
    out
}

fn loss_panel(out: &mut String, curve: &Curve, last: f64) {
    let positive =
        || curve.points.iter().map(|point| point.loss).filter(|loss| *loss > 0.0 && loss.is_finite());
    let low = positive().fold(f64::INFINITY, f64::min).min(1.0).log10().floor();
    let high = positive().fold(0.0, f64::max).max(1.0).log10().ceil().max(low + 1.0);
    let y = |loss: f64| TOP + PANEL * (high - loss.log10()) / (high - low);
    title(out, TOP, "loss per token (logarithmic)");
    for power in low as i64..=high as i64 {
        rule(out, y(10f64.powi(power as i32)), &format!("1e{power}"));
    }
    for (index, objective) in [Objective::Autoregressive, Objective::Diffusion].into_iter().enumerate() {
        let own =
            curve.points.iter().filter(|p| p.objective == objective && p.loss > 0.0 && p.loss.is_finite());
        let path: Vec<(f64, f64)> = own.map(|p| (x(p.step as f64, last), y(p.loss))).collect();
        let label = if index == 0 { "autoregressive" } else { "masked diffusion" };
        line(out, &path, index, label, TOP + 16.0 * index as f64);
    }
}

fn score_panel(out: &mut String, curve: &Curve, last: f64) {
    let top = TOP + PANEL + GAP;
    let y = |score: f64| top + PANEL * (1.0 - score.clamp(0.0, 1.0));
    title(out, top, "validation");
    for tenth in [0, 25, 50, 75, 100] {
        rule(out, y(f64::from(tenth) / 100.0), &format!("{tenth} %"));
    }
    let mut names: Vec<&str> =
        curve.scores.iter().flat_map(|(_, all)| all).map(|score| score.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for (index, name) in names.into_iter().enumerate() {
        let value = |all: &[super::curve::Score]| {
            all.iter().find(|score| score.name == name).map(|score| score.value)
        };
        let own = curve.scores.iter().filter_map(|(step, all)| Some((*step, value(all)?)));
        let path: Vec<(f64, f64)> = own.map(|(step, value)| (x(step as f64, last), y(value))).collect();
        line(out, &path, index, name, top + 16.0 * index as f64);
    }
}

fn x(step: f64, last: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * step / last
}

fn title(out: &mut String, top: f64, text: &str) {
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{text}</text>", top - 10.0);
}

fn rule(out: &mut String, y: f64, label: &str) {
    let right = WIDTH - RIGHT;
    let _ = writeln!(out, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>");
    let _ =
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0, y + 4.0);
}

fn line(out: &mut String, path: &[(f64, f64)], index: usize, label: &str, key: f64) {
    if path.is_empty() {
        return;
    }
    let colour = COLOURS[index % COLOURS.len()];
    let points: Vec<String> = path.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(
        out,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
    );
    let label = label.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{label}</text>",
        WIDTH - RIGHT + 10.0,
        key + 10.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pretrain::curve::tests::curve;

    #[test]
    fn every_series_is_drawn_inside_the_picture() {
        let text = svg(&curve());
        assert_eq!(text.matches("<polyline").count(), 4);
        assert!(text.contains(">masked diffusion<") && text.trim_end().ends_with("</svg>"));
        let points = text.split("points=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for point in points.flat_map(str::split_whitespace) {
            let (x, y) = point.split_once(',').unwrap();
            assert!(
                (0.0..=WIDTH).contains(&x.parse().unwrap())
                    && (0.0..=620.0).contains(&y.parse::<f64>().unwrap())
            );
        }
    }

    #[test]
    fn an_empty_record_is_an_empty_picture() {
        assert!(!svg(&Curve::default()).contains("polyline"));
    }
}
