//! Memory the kernels share: an output matrix cut into tiles that threads write at once, and per-thread scratch.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

/// A row-major matrix that several threads write, each its own tiles.
#[derive(Clone, Copy)]
pub(crate) struct Grid<'a> {
    ptr: *mut f32,
    rows: usize,
    cols: usize,
    _borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: the elements are reached only through `tile`, whose contract forbids overlapping tiles.
unsafe impl Send for Grid<'_> {}
// SAFETY: as above.
unsafe impl Sync for Grid<'_> {}

impl<'a> Grid<'a> {
    /// A matrix of `cols` columns.
    pub(crate) fn new(data: &'a mut [f32], cols: usize) -> Self {
        let rows = data.len().checked_div(cols).unwrap_or(0);
        assert_eq!(rows * cols, data.len(), "the data must be whole rows of {cols}");
        Self { ptr: data.as_mut_ptr(), rows, cols, _borrow: PhantomData }
    }

    /// The elements in `rows` x `cols`.
    ///
    /// # Safety
    /// No two tiles alive at once may share an element.
    pub(crate) unsafe fn tile(&self, rows: Range<usize>, cols: Range<usize>) -> Tile<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        Tile {
            ptr: self.ptr.wrapping_add(rows.start * self.cols + cols.start),
            stride: self.cols,
            rows: rows.len(),
            cols: cols.len(),
            _borrow: PhantomData,
        }
    }
}

/// A rectangle of a row-major matrix, borrowed mutably.
pub(crate) struct Tile<'a> {
    ptr: *mut f32,
    stride: usize,
    rows: usize,
    cols: usize,
    _borrow: PhantomData<&'a mut [f32]>,
}

impl<'a> Tile<'a> {
    /// The `[rows, cols]` matrix at the start of `data`, rows `stride` apart.
    pub(crate) fn new(data: &'a mut [f32], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(cols <= stride, "a row of {cols} does not fit a stride of {stride}");
        assert!(rows == 0 || (rows - 1) * stride + cols <= data.len(), "the tile leaves its data");
        Self { ptr: data.as_mut_ptr(), stride, rows, cols, _borrow: PhantomData }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn ptr(&mut self) -> *mut f32 {
        self.ptr
    }

    /// Row `i`.
    pub(crate) fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.rows);
        // SAFETY: the row lies in the rectangle this tile alone borrows.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(i * self.stride), self.cols) }
    }

    /// The part in `rows` x `cols`, reborrowed.
    pub(crate) fn part(&mut self, rows: Range<usize>, cols: Range<usize>) -> Tile<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        Tile {
            ptr: self.ptr.wrapping_add(rows.start * self.stride + cols.start),
            stride: self.stride,
            rows: rows.len(),
            cols: cols.len(),
            _borrow: PhantomData,
        }
    }
}

/// One cache line; a vector of them is scratch whose loads never straddle two lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

thread_local! {
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// The calling thread's scratch, aligned to a cache line, given back when dropped.
///
/// A guard and not a closure: code in a closure would not be compiled with the caller's instructions.
pub(crate) struct Scratch {
    lines: Vec<Line>,
    len: usize,
}

impl Scratch {
    /// `len` floats of unspecified value.
    pub(crate) fn take(len: usize) -> Self {
        // Taken, not borrowed: a nested call finds none and makes its own.
        let mut lines = SCRATCH.take();
        let wanted = len.div_ceil(16);
        if lines.len() < wanted {
            lines.resize(wanted, Line([0.0; 16]));
        }
        Self { lines, len }
    }

    pub(crate) fn floats(&mut self) -> &mut [f32] {
        // SAFETY: `Line` is exactly sixteen floats, and there are enough lines for `len` of them.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<f32>(), self.len) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SCRATCH.set(std::mem::take(&mut self.lines));
    }
}
