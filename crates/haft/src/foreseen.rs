//! What a call would do and what would be decided about it, without making it.
//!
//! Both take the path of a call as far as the decision, so they cannot say anything else than the call
//! would meet. Must not run, record or ask anything.

use std::sync::Arc;

use haft_contract::{Outcome, host::Question};
use haft_policy::Explanation;
use haft_runtime::DryRun;
use serde_json::Value;

use crate::Haft;

impl Haft {
    /// Plans a call and decides about it as [`call`](Self::call) would now: what it would touch, and
    /// whether it would be allowed, asked about or denied. Nothing runs, nothing is recorded and
    /// nobody is asked. A call that would end before it is decided has the outcome it would have.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let workspace = tempfile::tempdir()?;
    /// let haft = Haft::open(workspace.path()).in_memory().allow("write(docs/**)").build().await?;
    ///
    /// let guide = json!({"path": "docs/guide.md", "content": "# Guide"});
    /// let foreseen = haft.plan("write", guide).await.map_err(|ended| ended.model_text())?;
    ///
    /// assert_eq!(foreseen.decision.verdict.as_str(), "allow");
    /// assert_eq!(foreseen.plan.accesses()[0].kind(), "write");
    /// assert!(!workspace.path().join("docs").exists());
    /// # haft.close().await?;
    /// # Ok(()) })
    /// # }
    /// ```
    pub async fn plan(
        &self,
        tool: impl Into<String>,
        arguments: Value,
    ) -> Result<DryRun, Arc<Outcome>> {
        self.runtime().plan(self.request(tool, arguments)).await
    }

    /// Why the rules in force would decide about a call as they would: each thing that is judged, the
    /// rules that could apply to it, and the one that decides. Nothing runs, nothing is recorded and
    /// nobody is asked. What a person allowed before is not counted: [`plan`](Self::plan) has the
    /// decision with it.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let workspace = tempfile::tempdir()?;
    /// let haft = Haft::open(workspace.path()).in_memory().deny("write(*.lock)").build().await?;
    ///
    /// let lock = json!({"path": "Cargo.lock", "content": ""});
    /// let explained = haft.explain("write", lock).await.map_err(|ended| ended.model_text())?;
    ///
    /// let denied = explained.steps.iter().find(|step| step.verdict.as_str() == "deny");
    /// let rule = denied.and_then(|step| step.rule.as_ref());
    /// assert_eq!(rule.map(|rule| rule.text.as_str()), Some("write(*.lock)"));
    /// # haft.close().await?;
    /// # Ok(()) })
    /// # }
    /// ```
    pub async fn explain(
        &self,
        tool: impl Into<String>,
        arguments: Value,
    ) -> Result<Explanation, Arc<Outcome>> {
        let policy = self.policy().current();
        let foreseen = self.plan(tool, arguments).await?;
        let tools = self.runtime().registry().snapshot();
        let Some(entry) = tools.get(foreseen.plan.tool().tool.as_str()) else {
            // It was removed since; what was decided still holds.
            let decision = Arc::unwrap_or_clone(foreseen.decision);
            let steps = Vec::new();
            return Ok(Explanation { decision, steps });
        };
        Ok(policy.explain(&Question {
            principal: self.principal(),
            tool: entry.facts(),
            plan: &foreseen.plan,
            grants: &[],
        }))
    }
}
