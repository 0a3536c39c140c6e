//! The secret of a case, and the search for it in everything that leaves Haft: also as base64, in
//! hexadecimal, percent-encoded and backwards.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

/// The secret of one case. Its characters change under every encoding and under no escaping.
pub(crate) fn of(id: &str) -> String {
    let sum = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("canary+{id}/{sum:016x}=")
}

/// The forms in which a secret may leave.
pub(crate) struct Forms(Vec<(&'static str, Vec<u8>)>);

impl Forms {
    pub(crate) fn of(canary: &str) -> Self {
        let bytes = canary.as_bytes();
        let encode = |one: fn(u8) -> String| -> Vec<u8> {
            let encoded: Vec<String> = bytes.iter().copied().map(one).collect();
            encoded.concat().into_bytes()
        };
        let special = canary
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let lower = special
            .replace("%2B", "%2b")
            .replace("%2F", "%2f")
            .replace("%3D", "%3d");
        let backwards: String = canary.chars().rev().collect();
        let mut forms = vec![
            ("as it is", bytes.to_vec()),
            ("in hexadecimal", encode(|byte| format!("{byte:02x}"))),
            (
                "in upper-case hexadecimal",
                encode(|byte| format!("{byte:02X}")),
            ),
            ("percent-encoded", special.clone().into_bytes()),
            ("percent-encoded", lower.into_bytes()),
            (
                "percent-encoded throughout",
                encode(|byte| format!("%{byte:02X}")),
            ),
            ("backwards", backwards.into_bytes()),
        ];
        // Base64 depends on where in the text the secret begins; its outer characters depend on
        // the neighbours and are left out.
        for before in 0..3 {
            let padded = [&vec![b' '; before][..], bytes].concat();
            let padded_bits = padded.len() * 8;
            let encoded = STANDARD_NO_PAD.encode(padded);
            let core = &encoded[(before * 8).div_ceil(6)..padded_bits / 6];
            forms.push(("in base64", core.as_bytes().to_vec()));
        }
        Self(forms)
    }

    /// The form in which the secret is in these bytes, if it is.
    pub(crate) fn within(&self, bytes: &[u8]) -> Option<&'static str> {
        let found = self.0.iter().find(|(_, form)| contains(bytes, form));
        found.map(|(name, _)| *name)
    }

    /// The first file beneath a directory that holds the secret, and how.
    pub(crate) fn beneath(&self, directory: &Path) -> Option<String> {
        let mut waiting = vec![directory.to_owned()];
        while let Some(directory) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.map(Result::unwrap) {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    waiting.push(entry.path());
                } else if kind.is_file()
                    && let Ok(bytes) = fs::read(entry.path())
                    && let Some(form) = self.within(&bytes)
                {
                    return Some(format!("{} {form}", entry.path().display()));
                }
            }
        }
        None
    }
}

fn contains(bytes: &[u8], form: &[u8]) -> bool {
    memchr::memmem::find(bytes, form).is_some()
}

/// The control of the search itself: every form is found, wherever it stands.
#[test]
fn the_search_finds_every_form_of_the_canary() {
    let canary = of("PE-01");
    let forms = Forms::of(&canary);
    for before in ["", "a", "ab", "abc", "abcd"] {
        let text = format!("{before}{canary} and more");
        let encoded = STANDARD_NO_PAD.encode(&text);
        let hex: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let hex = hex.concat();
        let reversed: String = text.chars().rev().collect();
        let percent = text
            .replace('+', "%2b")
            .replace('/', "%2f")
            .replace('=', "%3d");
        for leaked in [&text, &encoded, &hex, &reversed, &percent] {
            assert!(forms.within(leaked.as_bytes()).is_some(), "{leaked}");
        }
    }
    let other = of("PE-02");
    assert_eq!(forms.within(other.as_bytes()), None);
    assert_eq!(forms.within(b"nothing here"), None);
}
