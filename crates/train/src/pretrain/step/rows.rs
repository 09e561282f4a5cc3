//! Row operations between the kernels: adding, gathering, scattering and summing rows of row-major matrices.

use std::sync::Arc;

use demask_kernels::Segment;
use demask_model::Packed;
use rayon::prelude::*;

/// Elements handled as one unit of work.
const BLOCK: usize = 1 << 14;

/// A buffer that only grows: its first `len` elements, with whatever they held.
pub(super) fn room(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// `to += from`.
pub(super) fn add(to: &mut [f32], from: &[f32]) {
    let blocks = to.par_chunks_mut(BLOCK).zip(from.par_chunks(BLOCK));
    blocks.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, from)| *to += from));
}

/// `to = table[rows]`.
pub(super) fn gather(table: &[f32], rows: &[u32], width: usize, to: &mut [f32]) {
    to.par_chunks_mut(width).zip(rows).with_min_len(64).for_each(|(to, &row)| {
        to.copy_from_slice(&table[row as usize * width..][..width]);
    });
}

/// `table[rows] += from`, in order: rows may repeat.
pub(super) fn scatter_add(table: &mut [f32], rows: &[u32], width: usize, from: &[f32]) {
    for (from, &row) in from.chunks_exact(width).zip(rows) {
        let to = &mut table[row as usize * width..][..width];
        to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
    }
}

/// `sums += Σ rows of matrix`.
pub(super) fn add_column_sums(matrix: &[f32], sums: &mut [f32]) {
    let width = sums.len();
    for row in matrix.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
}

/// The geometry of attention when only some rows (ascending) ask.
pub(super) fn asking(packed: &Packed, rows: &[u32]) -> (Arc<[u32]>, Vec<Segment>) {
    let mut segments = Vec::with_capacity(packed.segments.len());
    let mut start = 0;
    for segment in packed.segments.iter() {
        let inside = rows[start..].iter().take_while(|&&row| (row as usize) < segment.q.end).count();
        let own = &rows[start..start + inside];
        let runs = own.chunk_by(|a, b| segment.causal_offset.is_none() || a + 1 == *b);
        for run in runs {
            // Neighbouring causal rows keep seeing one key more each, so a run is one segment.
            let causal_offset =
                segment.causal_offset.map(|offset| offset + run[0] as usize - segment.q.start);
            segments.push(Segment { q: start..start + run.len(), k: segment.k.clone(), causal_offset });
            start += run.len();
        }
    }
    (rows.iter().map(|&row| packed.positions[row as usize]).collect(), segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causal_runs_see_what_their_rows_saw() {
        let packed = Packed::new([&[1_u32, 2, 3, 4][..], &[5, 6, 7][..]], true);
        let (positions, segments) = asking(&packed, &[1, 2, 4, 6]);
        assert_eq!(&*positions, [1, 2, 0, 2]);
        let expected = [(0..2, 0..4, Some(1)), (2..3, 4..7, Some(0)), (3..4, 4..7, Some(2))];
        let found: Vec<_> = segments.into_iter().map(|s| (s.q, s.k, s.causal_offset)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn gather_and_scatter_are_transposes() {
        let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let rows = [3, 0, 3];
        let mut picked = vec![0.0; 9];
        gather(&table, &rows, 3, &mut picked);
        assert_eq!(picked, [9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 9.0, 10.0, 11.0]);
        let mut back = vec![0.0; 12];
        scatter_add(&mut back, &rows, 3, &picked);
        assert_eq!(back[9..], [18.0, 20.0, 22.0]);
        let mut sums = vec![1.0; 3];
        add_column_sums(&picked, &mut sums);
        assert_eq!(sums, [19.0, 22.0, 25.0]);
    }
}
