"""The skills that stand as examples in the specifications, as they stand there."""

RESEARCHER_S0 = r"""
{
  "name": "researcher",
  "description": "Deep research - multi-step web research and synthesis",

  // Sélection du modèle — SOIT par nom :
  "model": "sonnet",
  // SOIT par sélecteur (mutuellement exclusif avec "model") :
  // "model_selector": {
  //   "required": [{ "key": "security", "op": "Gte", "value": 2 }],
  //   "preferred": [{ "key": "speed", "op": "Eq", "value": "fast" }]
  // },
  // Si absent : hérite du modèle "default" du registre.

  // Prompt spécialisé
  "instruction": "You are a research specialist...",

  // Tools requis (doivent être installés — Extism ou MCP)
  "tools": ["web_search", "fetch_url"],

  // Triggers : quand ce skill est activé
  "triggers": {
    "delegation": true,       // le main agent peut déléguer
    "keywords": ["research", "find out", "investigate"],
    "cron": null              // pas de scheduling
  },

  // Confirmation pour actions sensibles
  "dangerous_tools": [],

  // Limites
  "max_iterations": 15
}
"""

QUICK_TRANSLATE_S0 = r"""
{
  "name": "quick-translate",
  "model": "haiku"
}
"""

COMPLIANCE_CHECKER_S0 = r"""
{
  "name": "compliance-checker",
  "model_selector": {
    // MUST match — le skill refuse de démarrer si aucun provider ne match
    "required": [
      { "key": "security", "op": "Gte", "value": 3 },
      { "key": "capability", "op": "In", "values": ["compliance", "general"] }
    ],
    // SHOULD match — critères de tri parmi les candidats éligibles
    "preferred": [
      { "key": "capability", "op": "Eq", "value": "compliance" },
      { "key": "cost", "op": "Eq", "value": "free" }
    ]
  }
}
"""

CODE_REVIEW_S1 = r"""
{
  "name": "code-review",
  "description": "Review code for quality issues",
  "type": "simple",
  "instruction": "Review the provided code...",
  "model": "claude-sonnet",
  "tools": ["read_file", "search"]
}
"""

DEPLOY_S1 = r"""
{
  "name": "deploy",
  "description": "Deploy pipeline",
  "type": "workflow",
  "vars": {
    "env": { "description": "Target environment", "required": true }
  },
  "steps": [
    { "id": "build", "instruction": "Build the project." },
    { "id": "test",  "instruction": "Run tests.", "needs": ["build"] },
    { "id": "deploy","instruction": "Deploy to {{env}}.", "needs": ["test"] }
  ]
}
"""

RESEARCHER_S3 = r"""
{
  "name": "researcher",
  "description": "Deep web research and synthesis",
  "model": "sonnet",
  "instruction": "You are a research specialist...",
  "tools": ["web_search", "fetch_url"],
  "triggers": { "delegation": true }
}
"""

CODE_REVIEW_S3 = r"""
{
  "name": "code-review",
  "description": "Automated code review with multiple review legs",
  "type": "workflow",
  "version": 1,

  // Input variables (user must provide or defaults apply)
  "vars": {
    "target": {
      "description": "Branch, PR number, or file paths to review",
      "required": true
    },
    "focus": {
      "description": "Review focus areas",
      "default": "all"
    }
  },

  // DAG steps
  "steps": [
    {
      "id": "gather-context",
      "title": "Gather code context",
      "instruction": "Read the changed files and understand the diff",
      "tools": ["cmd", "file_read"],
      "model": "haiku"
    },
    {
      "id": "review-correctness",
      "title": "Review correctness",
      "instruction": "Check for logical errors, edge cases, off-by-ones",
      "needs": ["gather-context"],
      "model": "sonnet"
    },
    {
      "id": "review-security",
      "title": "Review security",
      "instruction": "Check for OWASP top 10, injection, auth issues",
      "needs": ["gather-context"],
      "model": "sonnet"
    },
    {
      "id": "review-style",
      "title": "Review Go style",
      "instruction": "Check gofmt, staticcheck, naming conventions",
      "needs": ["gather-context"],
      "model": "haiku"
    },
    {
      "id": "synthesize",
      "title": "Synthesize review",
      "instruction": "Combine all reviews into a final assessment with scores",
      "needs": ["review-correctness", "review-security", "review-style"],
      "model": "sonnet",
      "acceptance": "All critical issues addressed"
    }
  ]
}
"""

ALL = {
    "S0 researcher": RESEARCHER_S0,
    "S0 quick-translate": QUICK_TRANSLATE_S0,
    "S0 compliance-checker": COMPLIANCE_CHECKER_S0,
    "S1 code-review": CODE_REVIEW_S1,
    "S1 deploy": DEPLOY_S1,
    "S3 researcher": RESEARCHER_S3,
    "S3 code-review": CODE_REVIEW_S3,
}
