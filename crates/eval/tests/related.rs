//! The grids of `runs/related.sh`: nobody is given more chances than another.

use demask_eval::run::grid::Grid;

#[test]
fn the_related_systems_have_six_configurations_each() {
    for text in [
        include_str!("../../../configs/related.toml"),
        include_str!("../../../configs/related-learn2pd.toml"),
        include_str!("../../../configs/related-distilled.toml"),
    ] {
        let parts: Vec<&str> = text.split("[[grid]]").collect();
        let mut all = 0;
        for part in &parts[1..] {
            let own = Grid::parse("related", &format!("[[grid]]{part}")).unwrap().configurations;
            assert_eq!(own.len(), 6, "{part}");
            all += own.len();
        }
        // No configuration stands in two grids, where it would count for the first alone.
        assert_eq!(Grid::parse("related", text).unwrap().configurations.len(), all);
    }
}
