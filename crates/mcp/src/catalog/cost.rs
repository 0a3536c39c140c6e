//! What listing tools costs: tokens of each definition, of each provider, of all, and of what
//! search would list instead.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{ProviderId, ToolName};
use haft_runtime::registry::Entry;

use super::{Catalog, Mode, is_catalog_tool, tokens};

/// What listing some tools costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// By provider, the most costly first.
    pub providers: Vec<ProviderCost>,
    /// Tokens of every tool, listed in full.
    pub full: usize,
    /// Tokens of what search lists.
    pub search: usize,
    /// Whether the endpoint lists them as in search.
    pub searches: bool,
}

/// What one provider's tools cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderCost {
    /// Whose tools they are.
    pub provider: ProviderId,
    /// Tokens of all of them.
    pub tokens: usize,
    /// Each of them, the most costly first.
    pub tools: Vec<ToolCost>,
}

/// What one tool costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCost {
    /// The tool.
    pub tool: ToolName,
    /// Tokens of its definition.
    pub tokens: usize,
}

impl Cost {
    /// Adds up the tools a principal is shown, those that make the catalog searchable among them.
    pub fn of(shown: &[Arc<Entry>], catalog: &Catalog) -> Self {
        let mut by_provider: BTreeMap<ProviderId, Vec<ToolCost>> = BTreeMap::new();
        let is_extra = |entry: &&Arc<Entry>| is_catalog_tool(entry);
        for entry in shown.iter().filter(|entry| !is_extra(entry)) {
            let tool = ToolCost {
                tool: entry.key().tool.clone(),
                tokens: tokens(entry),
            };
            let provider = entry.key().provider.clone();
            by_provider.entry(provider).or_default().push(tool);
        }
        let mut providers: Vec<ProviderCost> = by_provider
            .into_iter()
            .map(|(provider, mut tools)| {
                tools.sort_by(|a, b| b.tokens.cmp(&a.tokens).then(a.tool.cmp(&b.tool)));
                ProviderCost {
                    provider,
                    tokens: tools.iter().map(|tool| tool.tokens).sum(),
                    tools,
                }
            })
            .collect();
        let by_cost = |a: &ProviderCost, b: &ProviderCost| {
            b.tokens.cmp(&a.tokens).then(a.provider.cmp(&b.provider))
        };
        providers.sort_by(by_cost);
        let in_search = Catalog {
            mode: Mode::Search,
            ..catalog.clone()
        };
        let listed = in_search.listed(shown.to_vec());
        Self {
            full: providers.iter().map(|provider| provider.tokens).sum(),
            search: listed.iter().map(|entry| tokens(entry)).sum(),
            searches: catalog.searches(shown),
            providers,
        }
    }
}
