//! An agent on its own screen, in a terminal of its own, used with its own keys.

use std::time::{Duration, Instant};

use haft_agents::model::BESIDE_THE_SCRIPT;

use super::Scene;
use crate::{
    support::eventually,
    tmux::{Tmux, Window},
};

/// How long the screen is given to follow a key that may change nothing on it.
const FOLLOWS: Duration = Duration::from_secs(5);

/// After this a key without any effect was missed.
const MISSED: Duration = Duration::from_secs(20);

/// How long an agent that is still starting is left alone before it is asked again.
const BETWEEN_PROMPTS: Duration = Duration::from_secs(2);

/// How often an agent that is still starting is asked.
const MOST_PROMPTS: usize = 20;

/// Wide enough that no agent folds a line the tests look for.
const SIZE: (u16, u16) = (120, 45);

/// An agent on its screen.
pub(crate) struct Seat<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) tmux: Tmux<'s>,
    pub(crate) window: Window,
}

impl<'s> Seat<'s> {
    /// Starts the agent and waits until it takes a prompt.
    pub(crate) fn take(scene: &'s Scene) -> Self {
        let mut tmux = Tmux::sized(&scene.stage, SIZE);
        let on_screen = scene.agent.screen_environment().iter();
        let variables: Vec<String> = scene
            .variables()
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .chain(on_screen.map(|(name, value)| format!("{name}={value}")))
            .collect();
        let variables: Vec<&str> = variables.iter().map(String::as_str).collect();
        let words = scene.screen_words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let window = tmux.program(&variables, &words);
        tmux.until(window, scene.agent.ready());
        Self {
            scene,
            tmux,
            window,
        }
    }

    /// Types a prompt and sends it, until the agent has the tools of Haft to answer it with: one that is
    /// still starting asks its model without them.
    pub(crate) fn ask(&self, prompt: &str) {
        for _ in 0..MOST_PROMPTS {
            self.send(prompt);
            if !self.scene.model.offered_by_haft().is_empty() {
                return;
            }
            // The next prompt waits for the answer to this one, and a little for the tools.
            self.until(BESIDE_THE_SCRIPT);
            std::thread::sleep(BETWEEN_PROMPTS);
        }
        panic!(
            "no tool of Haft is ever offered:\n{}",
            self.tmux.screen(self.window)
        );
    }

    /// Types a prompt and sends it.
    fn send(&self, prompt: &str) {
        self.tmux.types(self.window, prompt);
        self.tmux.until(self.window, prompt);
        // What is typed and sent at once is taken for something that was pasted, and an agent that
        // is still starting may miss the key.
        let before = self.scene.model.requests().len();
        eventually("the prompt is sent", || {
            std::thread::sleep(Duration::from_millis(800));
            self.tmux.press(self.window, &["Enter"]);
            // A second one too early would answer the form that comes.
            let pressed = Instant::now();
            let is_sent = || self.scene.model.requests().len() > before;
            while !is_sent() && pressed.elapsed() < MISSED {
                std::thread::sleep(Duration::from_millis(50));
            }
            is_sent().then_some(())
        });
    }

    /// Waits until the screen shows a text.
    pub(crate) fn until(&self, text: &str) -> String {
        self.tmux.until(self.window, text)
    }

    /// Presses keys, one after the other, each once the screen has followed the one before. An agent
    /// that has just drawn its form may drop a key; one that others follow is pressed until it shows,
    /// or they would mean something else.
    pub(crate) fn press(&self, keys: &[&str]) {
        let Some((last, before_it)) = keys.split_last() else {
            return;
        };
        for key in before_it {
            eventually("a key shows", || self.follows(key).then_some(()));
        }
        self.follows(last);
    }

    /// Presses a key; whether the screen followed it.
    fn follows(&self, key: &str) -> bool {
        let before = self.still();
        self.tmux.press(self.window, &[key]);
        let pressed = Instant::now();
        std::thread::sleep(Duration::from_millis(400));
        while self.still() == before && pressed.elapsed() < FOLLOWS {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.still() != before
    }

    /// Answers a form with these keys and waits for what must come of it. An agent that is busy
    /// may miss the last key; then it is pressed again.
    pub(crate) fn answer<T>(&self, keys: &[&str], comes: impl Fn() -> Option<T>) -> T {
        self.press(keys);
        let mut pressed = Instant::now();
        let came = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("the form is answered", || {
                if pressed.elapsed() > MISSED {
                    self.tmux.press(self.window, &keys[keys.len() - 1..]);
                    pressed = Instant::now();
                }
                comes()
            })
        }));
        came.unwrap_or_else(|_| panic!("no answer:\n{}", self.tmux.screen(self.window)))
    }

    /// What the screen shows, if it shows a text.
    pub(crate) fn shows(&self, text: &str) -> Option<()> {
        let screen = self.tmux.screen(self.window);
        screen.contains(text).then_some(())
    }

    /// The screen without what moves by itself: clocks and spinners.
    fn still(&self) -> String {
        let screen = self.tmux.screen(self.window);
        let kept = |char: &char| char.is_alphabetic() || "❯›>✔".contains(*char);
        screen.chars().filter(kept).collect()
    }

    /// Waits until the model was given this many results; what it was given last.
    pub(crate) fn given(&self, count: usize) -> String {
        let given = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually("the model is given a result", || {
                let given = self.scene.model.given();
                (given.len() >= count).then(|| given[count - 1].text.clone())
            })
        }));
        given.unwrap_or_else(|_| panic!("no result:\n{}", self.tmux.screen(self.window)))
    }
}
