//! Which hidden row a predictor was trained on, found without its file's word.

mod support;

use demask_decode::dependency::Predictor;
use demask_engine::Shard;
use demask_model::{Backbone as _, HiddenRow};
use demask_train::calibrate::Calibration;
use demask_train::tv_cache::{Claim, Generator, HiddenRows, Stored, TvCacheSettings};

#[test]
fn both_toy_predictors_are_told_by_what_they_predict() {
    let (backbone, source) = (support::backbone(), support::responses(220));
    let settings = TvCacheSettings {
        seed: 1,
        masks_per_response: 2,
        repeat_share: 0.0,
        pad_to: vec![40],
        hidden: HiddenRows::Both,
        hidden_dtype: Stored::F32,
        ..TvCacheSettings::default()
    };
    let (settings, shard, folder) = (&settings, Shard::WHOLE, std::path::Path::new(""));
    let generator = Generator {
        backbone: &backbone,
        source: &source,
        settings,
        folder,
        token_budget: 2048,
        shard,
        context: None,
        claim: Claim::Lock,
    };
    let examples = generator.examples().unwrap();
    assert_eq!(examples.len(), 400, "twenty responses are bad");
    let ends = &backbone.spec().ids.eos;
    for (name, row) in [("row_i", HiddenRow::I), ("row_i_minus_1", HiddenRow::IMinusOne)] {
        let file = support::folder().join(format!("predictor_{name}.safetensors"));
        let calibration = Calibration::of(&Predictor::load(&file).unwrap().0, &examples, ends).unwrap();
        assert_eq!(calibration.answer().row, row, "{calibration}");
        assert!(calibration.is_certain(), "{calibration}");
        // A few responses already point the right way, but not for certain.
        let few = Calibration::of(&Predictor::load(&file).unwrap().0, &examples[..32], ends).unwrap();
        assert!(few.answer().row == row && few.chance() > calibration.chance(), "{few}");
    }
}
