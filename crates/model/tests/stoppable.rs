//! Work that can be ended between two passes.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use demask_model::{Backbone, Error, Pass, Query, Stoppable, Tabular};

#[test]
fn passes_are_cut_end_at_the_gate_and_say_the_same() {
    let joint = Tabular::new(3, 2, vec![1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 5.0, 2.0]).unwrap();
    let canvases: Vec<[u32; 3]> = (0..400).map(|n| [n % 2, 2, n / 2 % 3]).collect();
    let ask = |backbone: &dyn Backbone| {
        let query = |tokens| Query { tokens, predict: &[1], ..Query::default() };
        let mut batch: Vec<Query<'_>> = canvases.iter().map(|canvas| query(canvas.as_slice())).collect();
        backbone.forward(&mut batch)
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let gated = |most: usize| {
        let told = told.clone();
        let gate = move |canvases: usize| {
            let mut told = told.lock().unwrap();
            told.push(canvases);
            if told.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        Stoppable::new(Arc::new(joint.clone()), Arc::new(gate))
    };
    let rows = |passes: Vec<Pass>| passes.into_iter().map(|pass| pass.predicting).collect::<Vec<_>>();
    assert_eq!(rows(ask(&gated(9)).unwrap()), rows(ask(&joint).unwrap()));
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()), [0, 170, 170, 60]);
    assert!(matches!(ask(&gated(2)), Err(Error::Stopped)));
    assert_eq!(*told.lock().unwrap(), [0, 170, 170]);
}
