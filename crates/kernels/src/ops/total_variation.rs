//! Total variation between two softmax distributions given by logits, the paper's dependency measure.

/// `½ Σ |softmax(a) − softmax(b)|`, given each row's logsumexp.
///
/// # Panics
/// If the rows have different lengths.
pub fn total_variation(a: &[f32], lse_a: f32, b: &[f32], lse_b: f32) -> f32 {
    assert_eq!(a.len(), b.len(), "total_variation: rows must have one length");
    let sum: f64 =
        a.iter().zip(b).map(|(&a, &b)| f64::from(((a - lse_a).exp() - (b - lse_b).exp()).abs())).sum();
    (0.5 * sum) as f32
}
