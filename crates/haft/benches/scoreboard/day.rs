//! Row 20: a developer's day. The unfair questions of each preset as a share of all calls, what is
//! wrongly allowed, and what fails in the sandbox though it works outside. The calls, and how they
//! are judged and run, are those of the test that writes `docs/a-day.md`.

use haft::Preset;
use haft_sandbox::helper::Helper;

use crate::{
    Scale,
    days::{corpus, report::goal, run},
    report::{Goal, Row},
    setting,
};

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let mut days = corpus::days();
    days.truncate(scale.days);
    let runtime = setting::many_threads();
    let report = runtime.block_on(run::run(days, &Helper::CurrentExecutable));
    let faults = report.faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let calls = report.calls().count();
    let mut rows = Vec::new();
    for preset in Preset::ALL {
        let Some(most) = goal(preset) else { continue };
        let tally = report.tally(preset);
        rows.push(row(
            format!("a developer's day, `{preset}`: unfair questions ÷ calls"),
            (tally.unfairly_asked, calls),
            Goal::Share(most),
            tally.unfair_share(),
        ));
        rows.push(row(
            format!("a developer's day, `{preset}`: wrongly allowed"),
            (tally.wrongly_allowed, calls),
            Goal::Count(0.0),
            tally.wrongly_allowed as f64,
        ));
    }
    let failed = report.failed_inside().len();
    rows.push(row(
        "a developer's day: failed in the sandbox, though it works outside".to_owned(),
        (failed, report.run()),
        Goal::Count(0.0),
        failed as f64,
    ));
    rows
}

fn row(metric: String, (ours, calls): (usize, usize), goal: Goal, figure: f64) -> Row {
    Row {
        number: 20,
        metric,
        ours: ours.to_string(),
        bare: format!("{calls} calls"),
        figure,
        goal,
        beside: String::new(),
        limits: "the list of what remains is in `docs/a-day.md`",
    }
}
