//! The differences between two definitions, member by member, for a person to judge.

use serde_json::Value;

/// One member that differs, by its JSON pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The JSON pointer.
    pub at: String,
    /// The old value.
    pub before: Option<Value>,
    /// The new value.
    pub after: Option<Value>,
}

/// The most members shown. The rest of a branch is shown as one difference.
const MAX_DIFFERENCES: usize = 200;

/// The differences, in the order of the members; never empty if the two differ.
pub fn difference(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(before), Some(after), &mut found);
    found
}

fn compare(at: String, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    // Past the cap, the rest of a branch is shown as one difference.
    let branch = found.len() < MAX_DIFFERENCES;
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) if branch => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let step = key.replace('~', "~0").replace('/', "~1");
                compare(format!("{at}/{step}"), old.get(key), new.get(key), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if branch => {
            for index in 0..old.len().max(new.len()) {
                compare(
                    format!("{at}/{index}"),
                    old.get(index),
                    new.get(index),
                    found,
                );
            }
        }
        (before, after) => found.push(Difference {
            at,
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mc_02_every_change_is_named_with_its_place() {
        let before = json!({"name": "a", "description": "x", "s": {"p": [1, 2]}, "gone": 1});
        let after = json!({"name": "a", "description": "x ", "s": {"p": [1, 3, 4]}, "a/b": true});
        let found = difference(&before, &after);
        let places: Vec<&str> = found.iter().map(|one| one.at.as_str()).collect();
        assert_eq!(
            places,
            ["/a~1b", "/description", "/gone", "/s/p/1", "/s/p/2"]
        );
        assert_eq!(found[2].after, None);
        assert_eq!(difference(&before, &before), []);
    }

    #[test]
    fn past_the_cap_a_branch_is_one_difference() {
        let object = |members: usize, value: u8| -> Value {
            (0..members).map(|n| (n.to_string(), value)).collect()
        };
        for (members, last) in [(MAX_DIFFERENCES - 1, "/b/1"), (MAX_DIFFERENCES, "/b")] {
            let of = |value| json!({"a": object(members, value), "b": object(2, value)});
            let found = difference(&of(0), &of(1));
            assert_eq!(found.last().unwrap().at, last, "{members}");
            let of = |value| json!({"a": object(members, value), "b": [value, value]});
            let found = difference(&of(0), &of(1));
            assert_eq!(found.last().unwrap().at, last, "{members}");
        }
    }
}
