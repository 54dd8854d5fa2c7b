"""What transformers computes from a checkpoint: greedy ids, logits, and how safe those are against rounding."""

import numpy as np
import torch

NUM_GREEDY = 32
LOGITS_ROWS = "row i holds the logits that predict id i + 1 of prompt_ids + greedy_ids"


def forward(model, ids):
    """Logits of all positions, [len(ids), V]."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def greedy(model, prompt, num_new):
    """Greedy continuation that goes on past end-of-sequence ids."""
    ids = list(prompt)
    for _ in range(num_new):
        ids.append(int(forward(model, ids)[-1].argmax()))
    return ids[len(prompt) :]


def greedy_by_generate(model, prompt, num_new):
    """The same ids by transformers' own loop, which uses its KV cache."""
    model.generation_config.eos_token_id = None
    ids = torch.tensor([prompt])
    # Without a mask, generate() hides every prompt id that equals the padding id.
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=num_new,
        do_sample=False,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


def teacher_forced(model, prompt, new_ids):
    """f32 logits [len(prompt) + len(new_ids) - 1, V]: row i predicts id i + 1 of prompt + new ids."""
    return forward(model, prompt + new_ids[:-1])


def logit_margins(logits, num_prompt):
    """Top-1 minus top-2 logit of each greedy step."""
    top = logits[num_prompt - 1 :].topk(2, dim=-1)[0]
    return top[:, 0] - top[:, 1]


class RouterProbe:
    """Records, over all routers and positions, how far each choice of experts was from another one.

    margin: smallest gap between the last kept and first dropped score (experts, and groups where there
    are any). experts_hit: experts chosen at least once, per layer. bias_flips: share of positions whose
    choice differs from the one without selection bias and groups.
    """

    def __init__(self, model):
        self.margin, self.experts_hit = float("inf"), []
        self.positions = self.flipped = 0
        self.hooks = [
            module.register_forward_hook(self._record)
            for name, module in model.named_modules()
            if name.endswith("mlp.gate")
        ]

    def close(self):
        for hook in self.hooks:
            hook.remove()

    def _record(self, router, _, output):
        logits, _, chosen = output
        bias = getattr(router, "e_score_correction_bias", None)
        plain = logits.float().softmax(-1) if bias is None else logits.sigmoid()
        scores = plain if bias is None else self._grouped(router, plain + bias)
        ordered = scores.sort(dim=-1, descending=True)[0]
        gap = (ordered[:, router.top_k - 1] - ordered[:, router.top_k]).min()
        self.margin = min(self.margin, float(gap))
        self.experts_hit.append(len(chosen.unique()))
        unbiased = plain.topk(router.top_k, dim=-1)[1].sort(-1)[0]
        self.positions += len(chosen)
        self.flipped += int((unbiased != chosen.sort(-1)[0]).any(-1).sum())

    def _grouped(self, router, choice):
        groups = choice.view(len(choice), router.num_group, -1)
        if router.num_group == router.topk_group:
            return choice
        group_scores = groups.topk(2, dim=-1)[0].sum(-1)
        ordered = group_scores.sort(dim=-1, descending=True)[0]
        gap = (ordered[:, router.topk_group - 1] - ordered[:, router.topk_group]).min()
        self.margin = min(self.margin, float(gap))
        kept = torch.zeros_like(group_scores).scatter(
            1, group_scores.topk(router.topk_group, dim=-1)[1], 1.0
        )
        dropped = (kept == 0).unsqueeze(-1).expand_as(groups).reshape(choice.shape)
        return choice.masked_fill(dropped, float("-inf"))


def expectations(model, prompt, num_new=NUM_GREEDY):
    """(values for expected.json, logits as a numpy array)."""
    new_ids = greedy(model, prompt, num_new)
    probe = RouterProbe(model)
    logits = teacher_forced(model, prompt, new_ids)
    probe.close()
    values = {
        "prompt_ids": prompt,
        "greedy_ids": new_ids,
        "min_margin": float(logit_margins(logits, len(prompt)).min()),
        "max_abs_logit": float(logits.abs().max()),
        "min_router_margin": probe.margin,
        "experts_hit_per_moe_layer": probe.experts_hit,
        "share_of_choices_changed_by_bias_or_groups": probe.flipped / max(probe.positions, 1),
    }
    return values, logits.numpy().astype(np.float32)
