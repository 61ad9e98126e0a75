//! Names of platforms, as OCI indexes have them: `OS/ARCHITECTURE[/VARIANT]` in words of Go.

use std::fmt;
use std::str::FromStr;

/// An operating system and CPU architecture of an image index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Operating system, for example `linux`.
    pub os: String,
    /// Processor, for example `amd64`.
    pub architecture: String,
    /// Variant of the processor, for example `v8`; none matches every variant.
    pub variant: Option<String>,
}

/// A text that names no platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a platform is OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, for example linux/arm64")]
pub struct NoPlatform;

impl Platform {
    /// `linux` on this processor.
    #[must_use]
    pub fn host() -> Platform {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            same => same,
        };
        Platform {
            os: "linux".into(),
            architecture: architecture.into(),
            variant: None,
        }
    }
}

impl FromStr for Platform {
    type Err = NoPlatform;

    fn from_str(text: &str) -> Result<Platform, NoPlatform> {
        let parts: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match parts[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant)),
            _ => return Err(NoPlatform),
        };
        if parts.contains(&"") {
            return Err(NoPlatform);
        }
        Ok(Platform {
            os: os.into(),
            architecture: architecture.into(),
            variant: variant.map(Into::into),
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) => write!(f, "/{variant}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_platforms() {
        for text in ["linux/amd64", "linux/arm64/v8"] {
            assert_eq!(text.parse::<Platform>().unwrap().to_string(), text);
        }
        for bad in ["", "linux", "linux/", "a/b/c/d", "linux//v8"] {
            assert_eq!(bad.parse::<Platform>(), Err(NoPlatform), "{bad}");
        }
        assert_eq!(Platform::host().os, "linux");
    }
}
