//! Which of several alternatives an input was meant to be that fits none of them, so that an error
//! names the field of that one and not the whole choice.

use std::collections::BTreeSet;

use jsonschema::{ValidationError, error::ValidationErrorKind};

/// What is wrong with an input that fits no alternative.
pub(super) enum MeantAlternative<'c> {
    /// It is this one, and these are its mistakes.
    One(&'c [ValidationError<'static>]),
    /// Its tag names none of them: what is wrong with it, by alternative.
    OtherTag(Vec<&'c ValidationError<'static>>),
    /// What tells them apart is missing: these names, in every alternative.
    Missing(Vec<&'c str>),
    /// It has names that no alternative has.
    Unknown(Vec<&'c str>),
    /// It could be any of these, by what each of them still needs.
    AnyOf(Vec<Vec<&'c str>>),
    /// No alternative is an object, or none resembles it.
    Unclear,
}

/// The mistakes of an input in one alternative.
struct AlternativeMistakes<'c> {
    all: &'c [ValidationError<'static>],
    /// Names it needs and does not have.
    missing: Vec<&'c str>,
    /// Names it has and may not have.
    unexpected: Vec<&'c str>,
}

/// One list of names of an alternative.
type NamesOf<'c> = for<'a> fn(&'a AlternativeMistakes<'c>) -> &'a Vec<&'c str>;

/// Finds the alternative by what each of them has against the input.
pub(super) fn meant_alternative<'c>(
    here: &str,
    alternatives: &'c [Vec<ValidationError<'static>>],
) -> MeantAlternative<'c> {
    let candidates = alternatives.iter().filter(|all| !is_other_kind(here, all));
    let candidates: Vec<AlternativeMistakes<'_>> = candidates
        .map(|all| AlternativeMistakes::of(here, all))
        .collect();
    if let [only] = candidates.as_slice() {
        return MeantAlternative::One(only.all);
    }
    if let Some(meant) = by_tag(here, &candidates) {
        return meant;
    }
    let Some(first) = candidates.first() else {
        return MeantAlternative::Unclear;
    };
    let in_all = |names: NamesOf<'c>| -> Vec<&'c str> {
        let of_first = names(first).iter().copied();
        of_first
            .filter(|name| candidates.iter().all(|one| names(one).contains(name)))
            .collect()
    };
    let missing = in_all(|one| &one.missing);
    if !missing.is_empty() {
        return MeantAlternative::Missing(missing);
    }
    let unexpected = in_all(|one| &one.unexpected);
    if !unexpected.is_empty() {
        return MeantAlternative::Unknown(unexpected);
    }
    let fewest = candidates.iter().map(AlternativeMistakes::misfit).min();
    let nearest = candidates.iter().filter(|one| Some(one.misfit()) == fewest);
    let nearest: Vec<&AlternativeMistakes<'_>> = nearest.collect();
    match nearest.as_slice() {
        [one, ..] if one.misfit() == 0 => MeantAlternative::One(one.all),
        [one] => MeantAlternative::One(one.all),
        several => MeantAlternative::AnyOf(several.iter().map(|one| one.missing.clone()).collect()),
    }
}

impl<'c> AlternativeMistakes<'c> {
    fn of(here: &str, all: &'c [ValidationError<'static>]) -> Self {
        let mut missing = Vec::new();
        let mut unexpected = Vec::new();
        for mistake in all
            .iter()
            .filter(|one| one.instance_path().as_str() == here)
        {
            match mistake.kind() {
                ValidationErrorKind::Required { property } => missing.extend(property.as_str()),
                ValidationErrorKind::AdditionalProperties { unexpected: names }
                | ValidationErrorKind::UnevaluatedProperties { unexpected: names } => {
                    unexpected.extend(names.iter().map(String::as_str));
                }
                _ => {}
            }
        }
        Self {
            all,
            missing,
            unexpected,
        }
    }

    /// How little the input looks like it.
    fn misfit(&self) -> usize {
        self.missing.len() + self.unexpected.len()
    }
}

/// Whether an alternative wants another kind of value, or one certain value.
fn is_other_kind(here: &str, all: &[ValidationError<'static>]) -> bool {
    all.iter().any(|mistake| {
        mistake.instance_path().as_str() == here
            && matches!(
                mistake.kind(),
                ValidationErrorKind::Type { .. }
                    | ValidationErrorKind::Constant { .. }
                    | ValidationErrorKind::Enum { .. }
                    | ValidationErrorKind::FalseSchema
            )
    })
}

/// Finds it by a property that all the other alternatives want otherwise.
fn by_tag<'c>(here: &str, candidates: &[AlternativeMistakes<'c>]) -> Option<MeantAlternative<'c>> {
    let at = |mistake: &'c ValidationError<'static>| {
        let place = mistake.instance_path().as_str();
        let name = place.strip_prefix(here)?.strip_prefix('/')?;
        let lists = match mistake.kind() {
            ValidationErrorKind::Constant { .. } => true,
            // A list of choices is a tag only where nothing else is.
            ValidationErrorKind::Enum { .. } => false,
            _ => return None,
        };
        (!name.contains('/')).then_some((lists, place))
    };
    for only_constants in [true, false] {
        let places = candidates.iter().flat_map(|one| one.all).filter_map(at);
        let places = places.filter(|(constant, _)| *constant || !only_constants);
        let places: BTreeSet<&str> = places.map(|(_, place)| place).collect();
        for place in places {
            let refuses = |one: &AlternativeMistakes<'c>| {
                let mut those = one.all.iter();
                those.find(|mistake| at(mistake).is_some_and(|(_, at)| at == place))
            };
            let taking: Vec<_> = candidates
                .iter()
                .filter(|one| refuses(one).is_none())
                .collect();
            match taking.as_slice() {
                [] => {
                    let refusals = candidates.iter().filter_map(refuses);
                    return Some(MeantAlternative::OtherTag(refusals.collect()));
                }
                [one] => return Some(MeantAlternative::One(one.all)),
                _ => {}
            }
        }
    }
    None
}
