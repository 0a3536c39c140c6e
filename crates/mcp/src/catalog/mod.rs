//! Large catalogs: an endpoint that would list more tools than a model should read lists a few
//! instead. With these the model finds the others ([`find_tools`](FindTools)) and calls them
//! (`call_tool_read`, `call_tool_write`, `call_tool_destructive`).
//!
//! The calling tools are not a second way in. The endpoint unwraps such a call ([`unwrap`]) before
//! it begins, so that policy, the person who is asked and the record see the tool that runs.

mod call;
mod class;
mod cost;
mod find;
mod listing;
mod shown_tools;
mod tokens;

use std::sync::Arc;

use haft_contract::{
    erased::{ErasedTool, erase},
    name::NameError,
};
use haft_runtime::{RulesInForce, registry::Registry};

pub use self::{
    call::{CallTool, unwrap},
    class::EffectClass,
    cost::{Cost, ProviderCost, ToolCost},
    find::FindTools,
    listing::{Catalog, DEFAULT_BUDGET, Mode, is_catalog_tool},
    tokens::tokens,
};

/// The search tools, for an endpoint that may not list everything. At each call they read the
/// current contents of the registry they are registered in.
pub fn tools(
    registry: &Arc<Registry>,
    rules: Arc<RulesInForce>,
) -> Result<Vec<Arc<dyn ErasedTool>>, NameError> {
    let shown = shown_tools::ShownTools::new(registry, rules);
    let mut tools = vec![erase(FindTools::new(shown.clone()))?];
    for class in EffectClass::ALL {
        tools.push(Arc::new(CallTool::new(class, shown.clone())?));
    }
    Ok(tools)
}
