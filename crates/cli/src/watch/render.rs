//! Draws a state. `terminal/visible.rs` has spelt out everything that is not ours before it gets
//! here. Without colours, bold, dim and reversed tell the same things apart.

use haft_contract::host::Timestamp;
use haft_host::question::answer_keys;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style as Drawn},
    text::{Line, Span},
    widgets::{Clear, Paragraph},
};

use super::{
    agent_question::AnswerScreen,
    detail::Detail,
    state::{Mode, Row, WatchState},
};
use crate::{
    terminal::{Colours, Style, visible},
    view::time,
};

/// The keys of the list and of a reason.
const LIST_KEYS: &str = "enter look  j/k move  g group  n refuse (a group)  ? help  q leave";
const REASON_KEYS: &str = "enter refuse with this reason  esc back";
const ANSWER_KEYS: &str = "a number chooses  enter type an answer  x no answer  ? help  q back";
const TYPING_KEYS: &str = "enter send this to the agent  esc back";
const REFUSE_ALL_KEYS: &str = "y refuse all of them  any other key: none";

/// What the keys do.
const HELP: &[&str] = &[
    "In the list",
    "  enter          open the question, to read and answer it",
    "  j k, arrows    move          space, page keys   move by a page",
    "  g              questions of one kind (agent, tool, program) in one line",
    "  n              on such a line: refuse all of them, after asking",
    "  q              leave",
    "",
    "At a question",
    "  y              allow this one call, once you have seen all of it",
    "  n              deny            r   deny, and tell the agent why",
    "  a              name the command that keeps a rule for calls like it",
    "  d              show or hide the details: ids, the digest, the raw input",
    "  space b j k    scroll          g G   to the beginning, to the end",
    "  q, esc         back to the list, without an answer",
    "",
    "At a question of an agent: what you answer is only text, it allows nothing",
    "  1-6  choose an answer    enter  type one    x  give none    q, esc  back",
    "",
    "A question that is answered elsewhere, or lapses, disappears by itself.",
];

/// Draws the whole screen.
pub(super) fn draw(watch: &WatchState, colours: Colours, frame: &mut Frame<'_>) {
    let [title, body, said, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_mode(watch, &watch.mode, colours, frame, [title, body, keys]);
    let text = watch.said.as_deref().map(visible::line).unwrap_or_default();
    frame.render_widget(Line::styled(text, drawn(colours, Style::Warn)), said);
}

fn draw_mode(
    watch: &WatchState,
    mode: &Mode,
    colours: Colours,
    frame: &mut Frame<'_>,
    areas: [Rect; 3],
) {
    let [title, body, keys] = areas;
    let key_line = |frame: &mut Frame<'_>, text: &str| {
        frame.render_widget(
            Line::styled(text.to_owned(), drawn(colours, Style::Dim)),
            keys,
        );
    };
    match mode {
        Mode::List => {
            frame.render_widget(Paragraph::new(list_title(watch, colours)), title);
            list(watch, colours, frame, body);
            key_line(frame, LIST_KEYS);
        }
        Mode::Detail(detail) => {
            frame.render_widget(Paragraph::new(detail_title(watch, detail, colours)), title);
            question(watch, detail, colours, frame, body);
            match &detail.reason {
                Some(reason) => typed_line("Why not? ", reason, REASON_KEYS, colours, frame, keys),
                None => key_line(frame, &format!("{} · ? help", answer_keys())),
            }
        }
        Mode::Answer(screen) => {
            frame.render_widget(Paragraph::new(answer_title(watch, screen, colours)), title);
            let shown = screen.lines.iter().skip(screen.top).map(String::as_str);
            let shown = shown.map(Line::raw).take(watch.size.body());
            frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), body);
            match &screen.typed {
                Some(typed) => typed_line("Answer: ", typed, TYPING_KEYS, colours, frame, keys),
                None => key_line(frame, ANSWER_KEYS),
            }
        }
        Mode::RefuseAll(items) => {
            frame.render_widget(Paragraph::new(list_title(watch, colours)), title);
            list(watch, colours, frame, body);
            let kind = items
                .first()
                .map(|item| item.kind.as_str())
                .unwrap_or_default();
            let text = format!(
                "Refuse all {} questions of: {kind}?  {REFUSE_ALL_KEYS}",
                items.len()
            );
            frame.render_widget(Line::styled(text, drawn(colours, Style::Bad)), keys);
        }
        Mode::Help(before) => {
            draw_mode(watch, before, colours, frame, areas);
            frame.render_widget(Clear, body);
            let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(*line)).collect();
            frame.render_widget(Paragraph::new(lines), body);
            frame.render_widget(Clear, keys);
            key_line(frame, "any key: back");
        }
    }
}

/// What is being typed, on the last line, and what the keys do above it.
fn typed_line(
    ask: &'static str,
    typed: &str,
    help: &'static str,
    colours: Colours,
    frame: &mut Frame<'_>,
    keys: Rect,
) {
    let room = usize::from(keys.width).saturating_sub(ask.len() + 1);
    let line = Line::from(vec![
        Span::styled(ask, drawn(colours, Style::Strong)),
        Span::raw(end_of(&visible::line(typed), room)),
        Span::styled("█", drawn(colours, Style::Dim)),
    ]);
    frame.render_widget(line, keys);
    let above = Rect {
        y: keys.y.saturating_sub(1),
        ..keys
    };
    frame.render_widget(Line::styled(help, drawn(colours, Style::Dim)), above);
}

/// The end of a typed text, as much as fits.
fn end_of(text: &str, width: usize) -> String {
    let skipped = text.chars().count().saturating_sub(width);
    text.chars().skip(skipped).collect()
}

fn list_title(watch: &WatchState, colours: Colours) -> Line<'static> {
    let waiting = match watch.items.len() + watch.agents_ask.len() {
        0 if !watch.looked => "reading the record".to_owned(),
        0 => "no questions are waiting".to_owned(),
        1 => "1 question is waiting".to_owned(),
        more => format!("{more} questions are waiting"),
    };
    let mut spans = vec![
        Span::styled("Haft: ", drawn(colours, Style::Strong)),
        Span::styled(waiting, drawn(colours, Style::Warn)),
    ];
    if let Some(kind) = &watch.within {
        spans.push(Span::styled(
            format!("  ({kind})"),
            drawn(colours, Style::Dim),
        ));
    } else if watch.grouped() {
        spans.push(Span::styled("  (by kind)", drawn(colours, Style::Dim)));
    }
    Line::from(spans)
}

fn list(watch: &WatchState, colours: Colours, frame: &mut Frame<'_>, area: Rect) {
    let rows = watch.rows();
    let height = usize::from(area.height);
    let first = watch.selected.saturating_sub(height.saturating_sub(1));
    let visible = rows.iter().enumerate().skip(first).take(height);
    let lines: Vec<Line<'_>> = visible
        .map(|(index, row)| {
            let line = drawn_line(colours, row_in_words(row, watch));
            if index == watch.selected {
                line.style(Drawn::new().add_modifier(Modifier::REVERSED))
            } else {
                line
            }
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn row_in_words(row: &Row, watch: &WatchState) -> Vec<(Style, String)> {
    let times = |asked: Timestamp, expires: Timestamp| {
        let age = time::rough(watch.now.since(asked));
        let left = time::rough(expires.since(watch.now));
        (Style::Dim, format!("{age:>4} {left:>4} left  "))
    };
    if let Row::Asks(asked) = row {
        let agent = visible::line(asked.principal.agent.as_str());
        let question = visible::line(asked.question.text().lines().next().unwrap_or_default());
        return vec![
            times(asked.asked, asked.expires),
            (Style::Strong, format!("{agent}  ")),
            (Style::Plain, format!("asks you: {question}")),
        ];
    }
    let Some(first) = row.first() else {
        return Vec::new();
    };
    let times = times(first.asked, first.expires);
    let workspace = first
        .workspace
        .as_deref()
        .filter(|_| watch.names_workspaces);
    match row {
        Row::Asks(_) => Vec::new(),
        Row::One(_) => vec![
            times,
            (Style::Strong, format!("{}  ", first.agent)),
            (
                Style::Dim,
                workspace.map_or_else(String::new, |root| format!("{root}  ")),
            ),
            (Style::Plain, first.summary.clone()),
        ],
        Row::Group(items) => vec![
            times,
            (Style::Warn, format!("{}x  ", items.len())),
            (Style::Strong, first.kind.clone()),
        ],
    }
}

fn detail_title(watch: &WatchState, detail: &Detail, colours: Colours) -> Line<'static> {
    let (style, state) = if detail.open {
        let left = time::rough(detail.item.expires.since(watch.now));
        (Style::Warn, format!("lapses in {left}"))
    } else {
        (Style::Bad, "no longer open".to_owned())
    };
    let last = (detail.top + watch.size.body()).min(detail.lines.len());
    let seen = match detail.unseen() {
        Some(_) => ", not all seen",
        None => "",
    };
    Line::from(vec![
        Span::styled(
            "Haft asks you about a call  ",
            drawn(colours, Style::Strong),
        ),
        Span::styled(state, drawn(colours, style)),
        Span::styled(
            format!(
                "  lines {}-{last} of {}{seen}",
                (detail.top + 1).min(last),
                detail.lines.len()
            ),
            drawn(colours, Style::Dim),
        ),
    ])
}

fn answer_title(watch: &WatchState, screen: &AnswerScreen, colours: Colours) -> Line<'static> {
    let (style, state) = if screen.open {
        let left = time::rough(screen.asked.expires.since(watch.now));
        (Style::Warn, format!("lapses in {left}"))
    } else {
        (Style::Bad, "no longer open".to_owned())
    };
    Line::from(vec![
        Span::styled("An agent asks you  ", drawn(colours, Style::Strong)),
        Span::styled(state, drawn(colours, style)),
    ])
}

fn question(
    watch: &WatchState,
    detail: &Detail,
    colours: Colours,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let shown = detail.lines.iter().skip(detail.top).take(watch.size.body());
    let lines: Vec<Line<'_>> = shown
        .map(|line| drawn_line(colours, line.clone()))
        .collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn drawn_line(colours: Colours, pieces: Vec<(Style, String)>) -> Line<'static> {
    let spans = pieces
        .into_iter()
        .map(|(style, text)| Span::styled(text, drawn(colours, style)));
    Line::from(spans.collect::<Vec<_>>())
}

fn drawn(colours: Colours, style: Style) -> Drawn {
    let plain = Drawn::new();
    let coloured = |colour: Color| match colours {
        Colours::On => plain.fg(colour),
        Colours::Off => plain,
    };
    match style {
        Style::Plain => plain,
        Style::Strong => plain.add_modifier(Modifier::BOLD),
        Style::Dim => plain.add_modifier(Modifier::DIM),
        Style::Good => coloured(Color::Green),
        Style::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
        Style::Warn => coloured(Color::Yellow),
    }
}
