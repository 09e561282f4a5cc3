//! What can go wrong with the Hub, and the sentence for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::ApiError;

/// Why the Hub could not be used.
pub(super) enum Failure {
    Status(u16),
    Unreachable(String),
    Interrupted(String),
    Silent(Duration),
    Stopped,
    DiskFull,
    Cache(String),
    Locked(PathBuf),
    Resume,
    Length,
    Strange(String),
}

impl Failure {
    /// What went wrong and what to do.
    pub(super) fn sentence(&self, endpoint: &str, cache: &Path) -> String {
        let cache = cache.display();
        match self {
            Self::Status(401 | 403) => format!(
                "{endpoint} refuses access: the repository does not exist, is private, or is gated; check the name, \
                 accept its terms on its page, and set HF_TOKEN to a token that may read it"
            ),
            Self::Status(404) => {
                format!("{endpoint} has no such repository, revision or file; check the name")
            }
            Self::Status(429) => format!("{endpoint} says there were too many requests; try again later"),
            Self::Status(status) => {
                format!("{endpoint} answers with HTTP status {status}; try again later")
            }
            Self::Unreachable(cause) => format!(
                "{endpoint} cannot be reached ({cause}); check the network, HF_ENDPOINT and the proxy settings"
            ),
            Self::Interrupted(cause) => {
                format!("the download broke off ({cause}); run the command again to resume it")
            }
            Self::Silent(patience) => format!(
                "{endpoint} has sent nothing for {} s; try again later, or set HF_HUB_DOWNLOAD_TIMEOUT to wait longer",
                patience.as_secs_f64()
            ),
            Self::Stopped => "the download was stopped; the same call continues it".to_owned(),
            Self::DiskFull => {
                format!("the disk of the cache {cache} is full; free some space or set HF_HOME")
            }
            Self::Cache(cause) => {
                format!("the cache {cache} cannot be written ({cause}); set HF_HOME")
            }
            Self::Locked(path) => format!(
                "another process is downloading it; wait for it, or delete {} if there is none",
                path.display()
            ),
            Self::Resume | Self::Length => {
                "the download does not have the length that was promised; run the command again".to_owned()
            }
            Self::Strange(cause) => format!("{endpoint} does not answer like the Hub: {cause}"),
        }
    }

    /// Not the user's mistake: a copy in the cache may stand in.
    pub(super) fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Interrupted(_) | Self::Silent(_) | Self::Status(429 | 500..)
        )
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::RequestError(error) => Self::from(*error),
            ApiError::IoError(cause) => Self::from(cause),
            ApiError::TooManyRetries(error) => Self::from(*error),
            ApiError::LockAcquisition(path) => Self::Locked(path),
            ApiError::InvalidResume => Self::Resume,
            other => Self::Strange(other.to_string()),
        }
    }
}

impl From<ureq::Error> for Failure {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::StatusCode(status) => Self::Status(status),
            ureq::Error::HostNotFound => Self::Unreachable("its name cannot be resolved".to_owned()),
            ureq::Error::ConnectionFailed
            | ureq::Error::Io(_)
            | ureq::Error::Timeout(_)
            | ureq::Error::Tls(_) => Self::Unreachable(error.to_string()),
            other => Self::Strange(other.to_string()),
        }
    }
}

/// While a body is copied to disk: the disk's complaints are named, all else is the connection's.
impl From<std::io::Error> for Failure {
    fn from(cause: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match cause.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => Self::DiskFull,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotADirectory | Kind::AlreadyExists => {
                Self::Cache(cause.to_string())
            }
            _ => Self::Interrupted(cause.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_and_a_lock_are_named() {
        let sentence =
            |error: ApiError| Failure::from(error).sentence("https://hub", Path::new("somewhere/hub"));
        assert_eq!(
            sentence(ApiError::IoError(io::Error::from(io::ErrorKind::StorageFull))),
            "the disk of the cache somewhere/hub is full; free some space or set HF_HOME"
        );
        assert_eq!(
            sentence(ApiError::LockAcquisition(PathBuf::from("x.lock"))),
            "another process is downloading it; wait for it, or delete x.lock if there is none"
        );
        let retried = ApiError::TooManyRetries(Box::new(ApiError::MissingHeader("etag")));
        assert_eq!(sentence(retried), "https://hub does not answer like the Hub: Header etag is missing");
    }
}
