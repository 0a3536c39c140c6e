//! Whether the words of `curl` and the like connect to this machine itself and to nothing else.

use super::{options::has, word::Word};

/// Letters of `curl` that take a value, and what `wget` has besides. `x` and `K` are not among them: a
/// proxy or a file of settings decides where it connects to.
const CURL_VALUES: &str = "AbCcDdEeFHhmoPQrTtuUwXYyz";
const WGET_VALUES: &str = "AaDeloOPQRTtUwX";

/// Long options that take the next word.
const LONG_VALUES: &str = "request header data data-raw data-binary data-urlencode json form user user-agent \
     referer cookie cookie-jar output dump-header max-time connect-timeout retry retry-delay retry-max-time \
     write-out upload-file range cacert cert key limit-rate method body-data timeout tries \
     output-document output-file directory-prefix";

/// Options that connect elsewhere, whatever the address says.
const DETOURS: &str = "resolve connect-to proxy preproxy socks4 socks4a socks5 socks5-hostname doh-url \
     config input-file proxy-user interface unix-socket abstract-unix-socket execute url base";

/// Whether every address among the words is one of this machine itself, and there is one.
pub(super) fn reaches_only_itself(name: &str, words: &[Word]) -> bool {
    let addresses: Vec<&Word> = match name {
        "curl" | "wget" => match operands(name, words) {
            Some(operands) => operands,
            None => return false,
        },
        _ => words
            .iter()
            .skip(1)
            .filter(|word| !(word.shown().starts_with('-') && word.shown().len() > 1))
            .filter(|word| may_be_address(word))
            .collect(),
    };
    !addresses.is_empty() && addresses.into_iter().all(is_loopback)
}

/// The words that are neither options nor values of options that are known; `None` if an option says
/// where to connect to.
fn operands<'w>(name: &str, words: &'w [Word]) -> Option<Vec<&'w Word>> {
    let values = if name == "curl" {
        CURL_VALUES
    } else {
        WGET_VALUES
    };
    let mut operands = Vec::new();
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.shown();
        if let Some(long) = text.strip_prefix("--") {
            let (option, value) = match long.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (long, None),
            };
            let may_be = |known: &str| !option.is_empty() && known.starts_with(option);
            if DETOURS.split_ascii_whitespace().any(may_be) && !has(LONG_VALUES, option) {
                return None;
            }
            if value.is_none() && has(LONG_VALUES, option) {
                words.next();
            }
        } else if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            for (at, letter) in letters.char_indices() {
                let is_detour = match name {
                    "curl" => matches!(letter, 'x' | 'K'),
                    _ => matches!(letter, 'i' | 'e' | 'B'),
                };
                if is_detour {
                    return None;
                }
                if values.contains(letter) {
                    if at + letter.len_utf8() == letters.len() {
                        words.next();
                    }
                    break;
                }
            }
        } else {
            operands.push(word);
        }
    }
    Some(operands)
}

/// Whether a word may be where a program connects to.
fn may_be_address(word: &Word) -> bool {
    let text = word.shown();
    let literal = text.split(['$', '`']).next().unwrap_or_default();
    text.contains("://")
        || literal.len() < text.len()
        || is_loopback(word)
        || (literal.contains('.') && !literal.starts_with(['.', '/', '@']))
}

/// Whether a word is an address of this machine itself, as far as it is written out. What stands before
/// an `@` is a name and a password, and the machine follows it.
fn is_loopback(word: &Word) -> bool {
    let text = word.shown().trim_start_matches(['"', '\'']);
    let address = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = address.split(['/', '?', '#']).next().unwrap_or(address);
    let hosts = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"];
    !authority.contains(['@', '\\', ','])
        && hosts
            .iter()
            .filter_map(|host| address.strip_prefix(host))
            .any(|rest| rest.is_empty() || rest.starts_with([':', '/', '"', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_itself() {
        let itself = |text: &str| {
            let words: Vec<Word> = text.split(' ').map(Word::bare).collect();
            reaches_only_itself(words[0].shown(), &words)
        };
        for text in [
            "curl localhost",
            "curl -sS http://127.0.0.1:8080/a",
            "curl -X POST -d a=b localhost:80/x",
            "curl --max-time 5 localhost:$port",
            "wget -qO- localhost:80",
            "nc localhost 80",
        ] {
            assert!(itself(text), "{text}");
        }
        for text in [
            "curl localhost@evil.example/x",
            "curl http://localhost:80@evil.example/",
            "curl localhost evil",
            "curl localhost.evil.example",
            "curl --resolve localhost:80:1.2.3.4 localhost",
            "curl --connect-to a:1:b:2 localhost",
            "curl -x evil localhost",
            "curl -sx evil localhost",
            "curl --proxy=evil localhost",
            "curl --prox evil localhost",
            "curl -K f localhost",
            "wget -i f localhost",
            "curl $url",
        ] {
            assert!(!itself(text), "{text}");
        }
    }
}
