//! What came of the days, and what is counted of it.

use std::fmt::Write as _;

use haft::{Preset, contract::host::Verdict};

use super::corpus::{Call, Day};

pub(crate) struct Report {
    pub(crate) days: Vec<DayReport>,
}

pub(crate) struct DayReport {
    pub(crate) day: Day,
    pub(crate) calls: Vec<CallReport>,
}

pub(crate) struct CallReport {
    pub(crate) call: Call,
    /// What each preset answers, or why none could be given.
    pub(crate) answers: Vec<(Preset, Result<Answer, String>)>,
    pub(crate) run: Run,
}

/// What a caller is told before anything runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allow,
    Ask,
    Deny,
    /// The arguments are refused as they are written.
    Malformed,
}

impl Answer {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Malformed => "malformed",
        }
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Ask => Self::Ask,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// How a call ran.
pub(crate) enum Run {
    /// It was not.
    Not,
    /// In the sandbox as outside.
    Same,
    /// Only outside. The first line of the text is the same on every machine.
    FailedInside(String),
    /// Not even outside: the data is wrong.
    FailedOutside(String),
    /// It takes a program that not every machine has, so it is printed and not counted.
    Uncounted(Box<Self>),
}

/// The largest fair share of unfair questions; `None` where the preset makes no such promise.
pub(crate) fn goal(preset: Preset) -> Option<f64> {
    match preset.as_str() {
        "sandboxed" => Some(0.01),
        "workspace" => Some(0.05),
        "careful" => Some(0.25),
        _ => None,
    }
}

/// How a preset answers the calls.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) allowed: usize,
    pub(crate) asked: usize,
    pub(crate) fairly_asked: usize,
    pub(crate) unfairly_asked: usize,
    pub(crate) wrongly_allowed: usize,
    pub(crate) denied: usize,
    pub(crate) wrongly_denied: usize,
    pub(crate) denied_unasked: usize,
    pub(crate) malformed: usize,
}

impl Tally {
    /// The unfair questions as a share of all calls.
    pub(crate) fn unfair_share(&self) -> f64 {
        let share = |count: usize| f64::from(u32::try_from(count).unwrap());
        share(self.unfairly_asked) / share(self.calls.max(1))
    }
}

/// What the answer to a call is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Right,
    UnfairlyAsked,
    WronglyAllowed,
    WronglyDenied,
    /// A person could have said yes.
    DeniedUnasked,
    /// Models write such calls.
    NotUnderstood,
}

impl Judgement {
    /// Asking about what should be denied is right: nothing happens without a yes.
    pub(crate) fn of(fair: Verdict, answer: Answer) -> Self {
        match (fair, answer) {
            (_, Answer::Malformed) => Self::NotUnderstood,
            (Verdict::Allow, Answer::Ask) => Self::UnfairlyAsked,
            (Verdict::Allow, Answer::Deny) => Self::WronglyDenied,
            (Verdict::Ask | Verdict::Deny, Answer::Allow) => Self::WronglyAllowed,
            (Verdict::Ask, Answer::Deny) => Self::DeniedUnasked,
            (Verdict::Allow, Answer::Allow)
            | (Verdict::Ask, Answer::Ask)
            | (Verdict::Deny, Answer::Ask | Answer::Deny) => Self::Right,
        }
    }
}

impl CallReport {
    /// The answer under a preset. Without one the report has a fault, and nothing is made of it.
    pub(crate) fn answer(&self, preset: Preset) -> Option<Answer> {
        let here = self.answers.iter().find(|(of, _)| *of == preset);
        here.and_then(|(_, answer)| answer.as_ref().ok().copied())
    }

    pub(crate) fn judgement(&self, preset: Preset) -> Option<Judgement> {
        let answer = self.answer(preset)?;
        Some(Judgement::of(self.call.fair, answer))
    }
}

impl Report {
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallReport> {
        self.days.iter().flat_map(|day| &day.calls)
    }

    pub(crate) fn tally(&self, preset: Preset) -> Tally {
        let mut tally = Tally::default();
        for call in self.calls() {
            let Some(answer) = call.answer(preset) else {
                continue;
            };
            tally.calls += 1;
            match answer {
                Answer::Allow => tally.allowed += 1,
                Answer::Ask => tally.asked += 1,
                Answer::Deny => tally.denied += 1,
                Answer::Malformed => tally.malformed += 1,
            }
            match Judgement::of(call.call.fair, answer) {
                Judgement::Right if answer == Answer::Ask => tally.fairly_asked += 1,
                Judgement::Right | Judgement::NotUnderstood => {}
                Judgement::UnfairlyAsked => tally.unfairly_asked += 1,
                Judgement::WronglyAllowed => tally.wrongly_allowed += 1,
                Judgement::WronglyDenied => tally.wrongly_denied += 1,
                Judgement::DeniedUnasked => tally.denied_unasked += 1,
            }
        }
        tally
    }

    /// The calls that failed in the sandbox and work outside, with what went wrong.
    pub(crate) fn failed_inside(&self) -> Vec<(&Call, &str)> {
        let failed = self.calls().filter_map(|report| match &report.run {
            Run::FailedInside(error) => Some((&report.call, error.lines().next().unwrap_or(""))),
            _ => None,
        });
        failed.collect()
    }

    /// How many calls were run and are counted.
    pub(crate) fn run(&self) -> usize {
        let counted = |report: &&CallReport| matches!(report.run, Run::Same | Run::FailedInside(_));
        self.calls().filter(counted).count()
    }

    /// What is wrong with the data rather than with Haft.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for report in self.calls() {
            let unjudged = report.answers.iter().filter_map(|(_, v)| v.as_ref().err());
            faults.extend(unjudged.take(1).cloned());
            if let Run::FailedOutside(error) = &report.run {
                faults.push(format!("{} fails outside: {error:.1500}", report.call.id));
            }
        }
        faults
    }

    /// What a run prints.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for report in self.calls() {
            let id = &report.call.id;
            match &report.run {
                Run::FailedInside(error) => {
                    let _ = writeln!(text, "{id} failed in the sandbox: {error:.1500}\n");
                }
                Run::Uncounted(run) => {
                    let word = match run.as_ref() {
                        Run::Same => "works in the sandbox",
                        Run::FailedInside(_) => "fails in the sandbox alone",
                        _ => "fails here",
                    };
                    let _ = writeln!(text, "{id} (not counted) {word}");
                }
                Run::Not | Run::Same | Run::FailedOutside(_) => {}
            }
        }
        for preset in Preset::ALL {
            let tally = self.tally(preset);
            let share = tally.unfair_share() * 100.0;
            let _ = writeln!(text, "{preset}: {share:.1} % unfairly asked, {tally:?}");
        }
        let failed = self.failed_inside().len();
        let _ = writeln!(
            text,
            "{failed} of {} failed in the sandbox alone",
            self.run()
        );
        text
    }
}
