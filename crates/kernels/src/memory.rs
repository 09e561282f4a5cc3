//! Memory the kernels share: an output matrix cut into tiles that threads write at once, per-thread scratch, and how the
//! allocator treats what is freed.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the C library keep freed blocks of megabytes for the next allocation instead of giving them back at once.
///
/// A forward pass allocates the same activations in every layer. Without this, the system would clear and map their
/// pages each time, one by one: about a twentieth of the time of a 7B-shaped pass over 512 tokens. A program calls this
/// when it starts; only glibc has such a setting, and elsewhere nothing happens.
pub fn reuse_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Larger blocks are weights: they are freed rarely, and then their memory should go back.
        const LARGEST: i32 = 256 << 20;
        REUSED.store(true, Ordering::Relaxed);
        // SAFETY: mallopt only sets numbers of the allocator, and takes its lock to do so.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
            libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
            libc::mallopt(libc::M_ARENA_MAX, arenas() as i32);
        }
    }
}

/// Whether this program asked for it; a library changes no one else's allocator.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
static REUSED: AtomicBool = AtomicBool::new(false);

/// Heaps that glibc may keep side by side: one for each thread that computes, and some for those that serve.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn arenas() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) + 8
}

/// Gives back the freed memory that [`reuse_freed_memory`] made the C library keep; for a program that is idle.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Free memory at the end of a heap that may stay.
        const KEPT: i32 = 128 << 10;
        if REUSED.load(Ordering::Relaxed) {
            // SAFETY: mallopt only sets numbers of the allocator, and takes its lock to do so.
            unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT) };
            cut_ends();
            // SAFETY: as above.
            unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX) };
        }
        // SAFETY: malloc_trim takes the allocator's locks and touches only memory that is free.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Makes every heap of glibc give back its end, which `malloc_trim` does for the first heap only.
///
/// The others give theirs back when a block is freed in them. A new thread gets a heap that has no thread, or else one
/// of those in use, in turn; so twice as many threads as there are heaps, all alive at once, free a block in each.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn cut_ends() {
    use std::sync::{RwLock, mpsc};
    /// Large enough that freeing it looks at the end of the heap.
    const BLOCK: usize = 256 << 10;
    let (ready, count) = mpsc::channel();
    let gate = RwLock::new(());
    std::thread::scope(|scope| {
        let closed = gate.write();
        let visit = |ready: mpsc::Sender<()>| {
            let block = std::hint::black_box(Vec::<u8>::with_capacity(BLOCK));
            let _ = ready.send(());
            drop(ready);
            let _open = gate.read();
            drop(block);
        };
        for _ in 0..2 * arenas() {
            let (ready, builder) = (ready.clone(), std::thread::Builder::new().stack_size(64 << 10));
            // Where no more threads can be started, the memory is given back another time.
            if builder.spawn_scoped(scope, move || visit(ready)).is_err() {
                break;
            }
        }
        drop(ready);
        // Until all of them have their block.
        while count.recv().is_ok() {}
        drop(closed);
    });
}

/// `len` times `value`, on large pages where the system has them for those who ask: weights are read from end to end, and
/// with pages of 4 KiB looking up where they are is what reading them waits for.
pub(crate) fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut all = Vec::with_capacity(len);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    large_pages(all.as_mut_ptr(), len);
    all.resize(len, value);
    all
}

/// Asks for large pages where `len` numbers will be; nothing is in them yet.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn large_pages<T>(start: *mut T, len: usize) {
    /// Size of a large page, and of the usual ones at most.
    const LARGE: usize = 2 << 20;
    let (from, to) = (start.addr().next_multiple_of(LARGE), start.addr() + len * size_of::<T>());
    if to > from + LARGE {
        let inside = start.cast::<u8>().wrapping_add(from - start.addr());
        // SAFETY: the range lies within an allocation of this program; the advice changes no contents, and where it is not
        // taken only time is lost.
        unsafe { libc::madvise(inside.cast(), to - from, libc::MADV_HUGEPAGE) };
    }
}

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

/// Numbers for which any bytes are a valid value.
///
/// # Safety
/// Every bit pattern must be valid, and the alignment at most a cache line.
pub(crate) unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: a primitive number.
unsafe impl Plain for f32 {}
// SAFETY: a primitive number.
unsafe impl Plain for i32 {}
// SAFETY: a primitive number.
unsafe impl Plain for i16 {}
// SAFETY: a primitive number.
unsafe impl Plain for i8 {}
// SAFETY: a primitive number.
unsafe impl Plain for u8 {}

/// One cache line; a vector of them is scratch whose loads never straddle two lines.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

thread_local! {
    /// What this thread has to lend, most recently returned last.
    static POOL: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Scratch of the calling thread, aligned to a cache line, given back when dropped.
///
/// A guard and not a closure: code in a closure would not be compiled with the caller's instructions.
pub(crate) struct Scratch<T> {
    lines: Vec<Line>,
    len: usize,
    _values: PhantomData<T>,
}

impl<T: Plain> Scratch<T> {
    /// `len` numbers of unspecified value.
    pub(crate) fn take(len: usize) -> Self {
        let mut lines = POOL.with_borrow_mut(Vec::pop).unwrap_or_default();
        let wanted = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if lines.len() < wanted {
            lines.resize(wanted, Line([0; 64]));
        }
        Self { lines, len, _values: PhantomData }
    }

    pub(crate) fn slice(&mut self) -> &mut [T] {
        // SAFETY: there are enough lines for `len` numbers, and any bytes are numbers.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast::<T>(), self.len) }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        POOL.with_borrow_mut(|pool| pool.push(std::mem::take(&mut self.lines)));
    }
}
