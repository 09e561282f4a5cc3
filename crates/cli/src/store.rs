//! Object storage (the feature `object-store`): folders in a bucket of S3 or of what speaks like it.
//!
//! A file is committed whole and only if there is none of its name, by a conditional write: of two writers of one file the
//! first wins, and the other does no harm. Invariant: calls block, and the runtime inside is nobody else's.

use std::collections::BTreeSet;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{Error, ObjectStore as _, PutMode, PutPayload};
use tokio::runtime::Runtime;

/// What the end of a parquet file says of its footer: four bytes of length, four of magic.
const TAIL: u64 = 8;

/// A folder in a bucket.
pub(crate) struct Store {
    objects: AmazonS3,
    folder: Key,
    runtime: Runtime,
}

impl Store {
    /// The folder of `s3://bucket/folder`; keys, region and endpoint are those of AWS's own variables.
    pub(crate) fn open(url: &str) -> Result<Self> {
        let objects = AmazonS3Builder::from_env().with_url(url).build();
        let path =
            url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, path)| path);
        Ok(Self {
            objects: objects.with_context(|| format!("{url} cannot be used"))?,
            folder: Key::parse(path.trim_end_matches('/'))
                .with_context(|| format!("{url} cannot be used"))?,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    fn key(&self, name: &str) -> Key {
        self.folder.child(name)
    }

    /// Names of the files in the folder.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>> {
        let listed = self.runtime.block_on(self.objects.list_with_delimiter(Some(&self.folder)));
        let listed = listed.with_context(|| format!("cannot list {}", self.folder))?;
        Ok(listed.objects.iter().filter_map(|object| object.location.filename()).map(str::to_owned).collect())
    }

    /// Stores a file under a name unless there is one; whether it did.
    pub(crate) fn commit(&self, file: &Path, name: &str) -> Result<bool> {
        match self.put(file, name, PutMode::Create)? {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            stored => stored.map(|()| true).with_context(|| format!("cannot store {name}")),
        }
    }

    /// Stores a file under a name, whatever was there.
    pub(crate) fn replace(&self, file: &Path, name: &str) -> Result<()> {
        self.put(file, name, PutMode::Overwrite)?.with_context(|| format!("cannot store {name}"))
    }

    fn put(&self, file: &Path, name: &str, mode: PutMode) -> Result<object_store::Result<()>> {
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let key = self.key(name);
        let put = self.objects.put_opts(&key, PutPayload::from(bytes), mode.into());
        Ok(self.runtime.block_on(put).map(drop))
    }

    /// Brings a file here.
    pub(crate) fn fetch(&self, name: &str, file: &Path) -> Result<()> {
        let key = self.key(name);
        let bytes = self.runtime.block_on(async { self.objects.get(&key).await?.bytes().await });
        let bytes = bytes.with_context(|| format!("cannot fetch {name}"))?;
        std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Brings the end of a parquet file here: its footer, in a file of the right length whose beginning is a hole.
    pub(crate) fn fetch_end(&self, name: &str, file: &Path) -> Result<()> {
        let (size, magic, footer) =
            self.end(name).with_context(|| format!("cannot fetch the end of {name}"))?;
        let write = || {
            let mut out = std::fs::File::create(file)?;
            out.write_all(&magic)?;
            out.seek(SeekFrom::Start(size - footer.len() as u64))?;
            out.write_all(&footer)
        };
        write().with_context(|| format!("cannot write {}", file.display()))
    }

    /// Size, first four bytes and footer of a parquet file.
    fn end(&self, name: &str) -> Result<(u64, Vec<u8>, Vec<u8>)> {
        let key = self.key(name);
        self.runtime.block_on(async {
            let size = self.objects.head(&key).await?.size;
            let tail = self.objects.get_range(&key, size.saturating_sub(TAIL)..size).await?;
            let length = tail.first_chunk().map_or(0, |length| u64::from(u32::from_le_bytes(*length))) + TAIL;
            let start = size.checked_sub(length).context("it is no parquet file")?;
            let footer = self.objects.get_range(&key, start..size).await?;
            Ok((size, self.objects.get_range(&key, 0..4).await?.to_vec(), footer.to_vec()))
        })
    }
}
