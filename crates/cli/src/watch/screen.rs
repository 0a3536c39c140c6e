//! The terminal while the watch screen owns it: taken over, drawn on, read from, and restored
//! whatever happens, even if the program panics.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use tokio::sync::mpsc;

use super::{
    render,
    state::{ScreenSize, WatchState},
    update::{Event, Key},
};
use crate::terminal::Colours;

/// How long the reader waits for a key before it checks whether it is still needed. Also how long
/// it may delay the end of the program.
const READ_WAIT: Duration = Duration::from_millis(50);

/// The most keys queued.
const MAX_KEYS: usize = 64;

/// The whole terminal.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    colours: Colours,
    events: mpsc::Receiver<Event>,
    over: Arc<AtomicBool>,
}

impl Screen {
    /// Takes over the terminal.
    pub(super) fn open(colours: Colours) -> io::Result<Self> {
        // Also installs a hook so that a panic restores the terminal before it is reported.
        let terminal = ratatui::try_init()?;
        let over = Arc::new(AtomicBool::new(false));
        let (sender, events) = mpsc::channel(MAX_KEYS);
        let is_over = Arc::clone(&over);
        tokio::task::spawn_blocking(move || read(&sender, &is_over));
        Ok(Self {
            terminal,
            colours,
            events,
            over,
        })
    }

    /// The terminal's size.
    pub(super) fn size(&self) -> io::Result<ScreenSize> {
        let size = self.terminal.size()?;
        Ok(ScreenSize {
            width: size.width,
            height: size.height,
        })
    }

    /// The next key or resize; `None` once there will be none.
    pub(super) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Draws a state. Only what changed is sent to the terminal.
    pub(super) fn draw(&mut self, watch: &WatchState) -> io::Result<()> {
        let colours = self.colours;
        self.terminal
            .draw(|frame| render::draw(watch, colours, frame))
            .map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        ratatui::restore();
    }
}

/// Reads keys until nobody needs them.
fn read(events: &mpsc::Sender<Event>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let read = match event::poll(READ_WAIT) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let Ok(read) = read else {
            return;
        };
        if let Some(event) = understood(&read)
            && events.blocking_send(event).is_err()
        {
            return;
        }
    }
}

fn understood(read: &event::Event) -> Option<Event> {
    let key = match read {
        event::Event::Resize(width, height) => {
            return Some(Event::Resized(ScreenSize {
                width: *width,
                height: *height,
            }));
        }
        event::Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let key = match key.code {
        KeyCode::Char('c') if control => Key::Interrupt,
        KeyCode::Char('d') if control => Key::PageDown,
        KeyCode::Char('u') if control => Key::PageUp,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    };
    Some(Event::Pressed(key))
}
