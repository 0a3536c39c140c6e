//! The SHA-256 of JSON in canonical form (RFC 8785). Two values have the same digest only if they
//! mean the same. What a plan or a tool is made of is said where each is: `pipeline::approval_form`
//! and `registry::entry`.

use haft_contract::PlanDigest;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a form in canonical JSON (RFC 8785): what an approval binds. Whoever shows a form
/// must recompute this before letting a person answer.
pub fn digest_of(form: &Value) -> PlanDigest {
    // Canonicalising fails only for numbers that JSON cannot hold, which the parser has refused.
    // Even then the plain form is bound, just not canonically.
    let mut bytes =
        serde_json_canonicalizer::to_vec(form).unwrap_or_else(|_| form.to_string().into());
    // The canonical form treats numbers as doubles, so several large integers are written alike.
    // Each is bound by its location and its digits, after a byte that never occurs in JSON.
    let mut large = Vec::new();
    large_numbers(form, &mut Vec::new(), &mut large);
    for number in large {
        bytes.push(0);
        bytes.extend(number.to_string().into_bytes());
    }
    PlanDigest(Sha256::digest(&bytes).into())
}

/// The integers beyond 2^53 in a form, each as its digits preceded by the names and positions that
/// lead to it. A large number that is not an integer has a distinct text in the canonical form, and
/// differs from an integer by being absent here.
fn large_numbers(form: &Value, place: &mut Vec<Value>, found: &mut Vec<Value>) {
    const MAX_EXACT: u64 = (1 << 53) - 1;
    let mut enter = |step: Value, value: &Value| {
        place.push(step);
        large_numbers(value, place, found);
        place.pop();
    };
    match form {
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if whole.is_some_and(|whole| whole > MAX_EXACT) {
                found.push(json!([place, number.to_string()]));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                enter(json!(at), value);
            }
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                enter(json!(name), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_02_large_numbers_that_differ_are_told_apart() {
        let of = |number: Value| digest_of(&json!({"input": {"amount": [number]}}));
        let whole = [
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(-9_007_199_254_740_993_i64),
            json!(u64::MAX),
            json!(u64::MAX - 1),
        ];
        for (at, one) in whole.iter().enumerate() {
            for other in whole.iter().skip(at + 1) {
                assert_ne!(of(one.clone()), of(other.clone()), "{one} {other}");
            }
        }
        // The form that is bound is the one read back from a record.
        let form = json!({"b": u64::MAX, "a": [1, (1_u64 << 53) + 1]});
        let again: Value = serde_json::from_str(&form.to_string()).unwrap();
        assert_eq!(digest_of(&form), digest_of(&again));
        let ordinary = json!({"a": 1});
        let plain = Sha256::digest(br#"{"a":1}"#);
        assert_eq!(digest_of(&ordinary).0, <[u8; 32]>::from(plain));
    }

    #[test]
    fn mc_02_large_numbers_in_each_others_places_are_told_apart() {
        let large = 9_007_199_254_740_993_u64;
        // The canonical form writes all of them alike.
        let (whole, next, float) = (
            json!(large),
            json!(large - 1),
            json!(9_007_199_254_740_992.0),
        );
        for (one, other) in [(&whole, &next), (&whole, &float), (&next, &float)] {
            for form in [
                |one: &Value, other: &Value| json!({"from": one, "to": other}),
                |one: &Value, other: &Value| json!([one, other]),
                |one: &Value, other: &Value| json!([[one], {"[0]": other}]),
            ] {
                let (here, there) = (form(one, other), form(other, one));
                assert_ne!(digest_of(&here), digest_of(&there), "{here} {there}");
            }
        }
    }
}
