//! Downloads as they are shown on standard error.

use demask::model::checkpoint::source::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar for each file.
#[derive(Default)]
pub struct Downloads {
    bar: Option<ProgressBar>,
}

impl Progress for Downloads {
    fn begin(&mut self, file: &str, bytes: u64) {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        let bar = ProgressBar::new(bytes).with_message(file.to_owned());
        if let Ok(style) = style {
            bar.set_style(style);
        }
        self.bar = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish();
        }
    }

    fn warn(&mut self, sentence: &str) {
        eprintln!("warning: {sentence}");
    }
}
