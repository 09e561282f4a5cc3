//! A look over a GGUF header before the library reads it: every length it names is compared with what is there.
//!
//! The library makes room for a text or a list on the file's word, and a damaged word asks for more memory than any
//! machine has. Invariant: what passes names no length, count or shape that the file could not hold.

/// Dimensions of a tensor, and lists inside lists.
const DIMENSIONS: u64 = 8;
const DEEPEST: usize = 4;

/// Refuses a header that promises more than the file has, with the reason.
pub(super) fn check(file: &[u8]) -> Result<(), String> {
    let mut at = Reader { file, place: 0, wide: true };
    if at.take(4)? != b"GGUF" {
        return Err("it does not begin with GGUF".into());
    }
    at.wide = at.u32()? > 1;
    let (tensors, entries) = (at.length()?, at.length()?);
    for _ in 0..entries {
        at.text()?;
        let kind = at.u32()?;
        at.value(kind, 0)?;
    }
    for _ in 0..tensors {
        at.text()?;
        at.tensor()?;
    }
    Ok(())
}

struct Reader<'a> {
    file: &'a [u8],
    place: usize,
    /// Lengths have eight bytes since the second version.
    wide: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let rest = &self.file[self.place..];
        match usize::try_from(count).ok().and_then(|count| rest.get(..count)) {
            Some(bytes) => {
                self.place += bytes.len();
                Ok(bytes)
            }
            None => Err(format!("it ends inside its header, {count} bytes after byte {}", self.place)),
        }
    }

    fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn u64(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A number of things that take a byte each at least.
    fn length(&mut self) -> Result<u64, String> {
        let length = if self.wide { self.u64()? } else { u64::from(self.u32()?) };
        if length > (self.file.len() - self.place) as u64 {
            return Err(format!(
                "it promises {length} things where {} bytes follow",
                self.file.len() - self.place
            ));
        }
        Ok(length)
    }

    fn text(&mut self) -> Result<(), String> {
        let length = self.length()?;
        self.take(length).map(drop)
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<(), String> {
        match kind {
            0 | 1 | 7 => self.take(1).map(drop),
            2 | 3 => self.take(2).map(drop),
            4..=6 => self.take(4).map(drop),
            10..=12 => self.take(8).map(drop),
            8 => self.text(),
            9 if depth < DEEPEST => {
                let (kind, count) = (self.u32()?, self.length()?);
                (0..count).try_for_each(|_| self.value(kind, depth + 1))
            }
            9 => Err("its lists are nested too deeply".into()),
            other => Err(format!("it has a value of the unknown kind {other}")),
        }
    }

    fn tensor(&mut self) -> Result<(), String> {
        let dimensions = u64::from(self.u32()?);
        if dimensions > DIMENSIONS {
            return Err(format!("it has a tensor of {dimensions} dimensions"));
        }
        // No format has more than eight elements in a byte.
        let most = (self.file.len() as u64).saturating_mul(8);
        let mut elements = 1_u64;
        for _ in 0..dimensions {
            let size = if self.wide { self.u64()? } else { u64::from(self.u32()?) };
            elements = elements.checked_mul(size).filter(|&elements| elements <= most).ok_or_else(|| {
                format!("it has a tensor that is larger than the file of {} bytes", self.file.len())
            })?;
        }
        self.take(4 + 8).map(drop)
    }
}
