# SPDX-License-Identifier: Apache-2.0
"""One training step's loss: answers, gaze, and what each visual token shows."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F

import model
import plans
from data import CELLS, FAMILIES, SIDE, SLOT

PREFIX = 4            # tokens before the image
ANSWER_STEPS = 4      # an answer of up to three tokens and its end
UNSEEN_WEIGHT = 0.25  # of a question whose evidence is not in the plan: it teaches doubt only
GAZE_WEIGHT, AUX_WEIGHT = 0.3, 0.7
FINE_PRINT_PX = 13    # payloads up to this height show at level 0 alone


@dataclass(frozen=True)
class Arm:
    """A way of choosing cells: batch, questions of each sample, sizes of the looks."""
    name: str
    batch: int
    questions: int
    looks: tuple = ()
    shares: tuple = (0.5, 0.25, 0.12)  # of kinds of look: what is needed, all payloads, clusters; else random
    own_gaze: bool = False


@dataclass
class Batch:
    scene: torch.Tensor
    cards: torch.Tensor
    slots: torch.Tensor
    targets: torch.Tensor
    asked: torch.Tensor
    family: torch.Tensor
    payloads: torch.Tensor  # [B, CARDS, 1024]
    needed: torch.Tensor    # [B, Q, 1024]: the cells a question's evidence lies on


def draw(pool, arm):
    device = pool.device
    scene = torch.randint(0, pool.scenes, (arm.batch,), device=device)
    pick = torch.rand(arm.batch, pool.family.shape[1], device=device).topk(arm.questions, 1).indices
    at = (scene[:, None], pick)
    cards = pool.cards[scene].long()
    payloads = plans.payload_cells(cards)
    evidence = pool.evidence[at].to(torch.float32)
    needed = evidence @ payloads.to(torch.float32) > 0
    return Batch(scene, cards, pool.slots[at].long(), pool.targets[at].long(), pool.asked[at], pool.family[at].long(),
                 payloads, needed)


def text_mask(visual, questions, dtype, device):
    """Visual tokens see what is before them; a question sees the image and itself, not the other questions."""
    first = PREFIX + visual
    length = first + questions * SLOT + PREFIX  # the last tokens only round the length up to a multiple of eight
    at = torch.arange(length, device=device)
    owner = torch.where(at < first, -1, (at - first) // SLOT)
    seen = (at[:, None] >= at) & ((owner[None] == -1) | (owner[:, None] == owner[None]))
    return torch.zeros(length, length, device=device, dtype=dtype).masked_fill(~seen, float("-inf"))


class Steps:
    """Losses of a model for a pool of scenes.

    `divisor` says what a sum is divided by, given how much counts in it here: where a batch lies on several
    processes, what makes the mean of their losses the loss of the whole batch. `run` is model.run_here, or the like.
    """

    def __init__(self, config, parameters, pool, dtype=None, run=model.run_here,
                 divisor=lambda count: count.clamp(min=1)):
        self.c, self.p, self.pool, self.run, self.divisor = config, parameters, pool, run, divisor
        self.dtype = dtype or parameters[model.TEXT + "norm.weight"].dtype
        self.prefix = torch.tensor(pool.words.before, device=pool.device)
        self.masks = {}

    def embed(self, ids):
        return F.one_hot(ids, self.c.vocab_size).to(self.dtype) @ self.p[model.TEXT + "embed_tokens.weight"]

    def encode(self, batch, plan, blocks):
        cell, row, col, level = plan
        flat = (batch.scene[:, None] * CELLS + cell).flatten()
        values = self.pool.cells.view(-1, 4 * 768).index_select(0, flat)
        patches = (values.to(self.dtype) / 127.5 - 1).view(*cell.shape, 4, 768)
        return model.tower(self.p, self.c, patches, row, col, level, blocks, run=self.run)

    def read(self, batch, plan, tokens, tapped, layers=None, on_gaze=None):
        """The language model over prefix, image and all questions; gives the questions' part: [B, Q, SLOT, size]."""
        size, visual = plan.shape[1:]
        questions = batch.slots.shape[1]
        device = tokens.device
        if (visual, questions) not in self.masks:
            self.masks[visual, questions] = text_mask(visual, questions, self.dtype, device)
        ids = torch.cat((batch.slots.flatten(1), self.prefix.expand(size, -1)), 1)
        embedded = torch.cat((self.embed(self.prefix).expand(size, -1, -1), tokens, self.embed(ids)), 1)
        places = model.cell_places(*plan[1:]) + PREFIX
        image = torch.cat((torch.full_like(places[..., :1], PREFIX), places), -1)
        before = torch.arange(PREFIX, device=device, dtype=torch.float32)
        text = torch.cat((torch.arange(SLOT, device=device).repeat(questions), torch.arange(PREFIX, device=device)))
        after = (text + PREFIX + SIDE).float()
        three = lambda at: at[None, :, None].expand(size, -1, 3)
        positions = torch.cat((three(before), image, three(after)), 1)
        x = model.language(self.p, self.c, embedded, positions, self.masks[visual, questions],
                           (PREFIX, PREFIX + visual), tapped, layers, on_gaze, self.run)
        return self.slots_of(x, visual, questions)

    @staticmethod
    def slots_of(x, visual, questions):
        first = PREFIX + visual
        return x[:, first:first + questions * SLOT].view(x.shape[0], questions, SLOT, -1)

    def gaze(self, x, visual, batch):
        """Logits of the level-0 cells, row-major: [B, Q, 1024]."""
        glance = x[:, PREFIX:PREFIX + 64]
        scores = model.gaze_logits(self.p, self.c, glance, self.slots_of(x, visual, batch.slots.shape[1]), batch.asked)
        size, questions = scores.shape[:2]
        return scores.view(size, questions, 8, 8, 4, 4).transpose(3, 4).reshape(size, questions, SIDE * SIDE)

    @torch.no_grad()
    def own_scores(self, batch):
        """Where the model itself would look, having read the questions over the glance."""
        glance = plans.whole_level(2, batch.scene.shape[0], self.pool.device)
        tokens, tapped = self.encode(batch, glance, (64,))
        seen = []
        self.read(batch, glance, tokens, tapped, self.c.gaze_layer, seen.append)
        likely = self.gaze(seen[0], 64, batch).softmax(-1).mean(1)
        return likely * torch.exp(0.2 * torch.randn_like(likely)) + 1e-9 * torch.rand_like(likely)

    def plan(self, arm, batch):
        """The cells of an arm, and the sizes of its blocks."""
        size, device = arm.batch, self.pool.device
        if arm.name in ("full", "uniform", "glance"):
            level = dict(full=0, uniform=1, glance=2)[arm.name]
            plan = plans.whole_level(level, size, device)
            return plan, (plan.shape[2],)
        if arm.own_gaze:
            scores = self.own_scores(batch)
        else:
            scores = plans.random_scores(batch.needed.any(1), batch.payloads.any(1), arm.shares)
        if arm.name == "quadtree":
            plan = plans.quadtree(scores)
            return plan, (plan.shape[2],)
        plan = torch.cat((plans.whole_level(2, size, device), plans.look(scores, arm.looks)), 2)
        return plan, (64, *arm.looks)

    def loss(self, arm):
        """The loss, and figures by family: how many questions, right answers, questions whose evidence is seen."""
        batch = draw(self.pool, arm)
        return self.loss_of(batch, *self.plan(arm, batch))

    def loss_of(self, batch, plan, blocks):
        visual = plan.shape[2]
        tokens, tapped = self.encode(batch, plan, blocks)
        stream = []
        x = self.read(batch, plan, tokens, tapped, None, stream.append)
        fine = plans.seen_finely(plan)
        unseen = batch.needed & ~fine[:, None]
        covered = ~unseen.any(-1)

        answer, right = self.answer_loss(batch, x, covered)
        aux = self.aux_loss(batch, plan, tokens, fine)
        if plan.shape[2] > 64 and blocks[0] != 64:
            gaze = torch.zeros_like(answer)
        else:
            gaze = self.gaze_loss(batch, stream[0], visual, unseen)
        figures = torch.zeros(len(FAMILIES), 3, device=tokens.device)
        rows = torch.stack((torch.ones_like(right), right, covered.float()), -1)
        figures.index_add_(0, batch.family.flatten(), rows.flatten(0, 1))
        losses = torch.stack((answer.detach(), gaze.detach(), aux.detach()))
        return answer + GAZE_WEIGHT * gaze + AUX_WEIGHT * aux, figures, losses

    def answer_loss(self, batch, x, seen):
        first = batch.asked.sum(-1, keepdim=True) - 1
        at = (first + torch.arange(ANSWER_STEPS, device=x.device)).clamp(max=SLOT - 1)
        states = x.gather(2, at[..., None].expand(-1, -1, -1, x.shape[-1]))
        targets = batch.targets.gather(2, at)
        out = model.logits(self.p, states).float()
        each = F.cross_entropy(out.flatten(0, 2), targets.flatten(), ignore_index=-100, reduction="none")
        wanted = targets != -100
        weight = torch.where(seen, 1.0, UNSEEN_WEIGHT)[..., None] * wanted
        right = ((out.argmax(-1) == targets) | ~wanted).all(-1).float()
        return (each.view(weight.shape) * weight).sum() / self.divisor(weight.sum()), right

    def gaze_loss(self, batch, x, visual, unseen):
        """Looks should go to evidence that is not seen yet."""
        wanted = unseen.float()
        count = wanted.sum(-1)
        each = -(self.gaze(x, visual, batch).log_softmax(-1) * wanted).sum(-1) / count.clamp(min=1)
        return (each * (count > 0)).sum() / self.divisor((count > 0).sum())

    def aux_loss(self, batch, plan, tokens, fine):
        """What a token shows: the card in its cell, and what it carries where that can be read."""
        level = plan[3]
        index, there = plans.card_of_cell(plan, batch.cards)
        card = batch.cards.gather(1, index[..., None].expand(-1, -1, 16))
        whole = ~(batch.payloads & ~fine[:, None]).any(-1)  # [B, CARDS]: the payload lies in fine cells of the plan
        large = card[..., 15] > FINE_PRINT_PX
        readable = there & (((level == 1) & large) | ((level == 0) & whole.gather(1, index)))
        kind = card[..., 5]
        target = batch.cards.gather(1, card[..., 14].clamp(min=0)[..., None].expand(-1, -1, 16))
        heads = F.linear(tokens, self.p["aux.weight"], self.p["aux.bias"]).float().split(list(model.AUX.values()), -1)
        heads = dict(zip(model.AUX, heads))

        def classes(name, label, mask):
            each = F.cross_entropy(heads[name].flatten(0, 1), label.clamp(min=0).flatten(), reduction="none")
            return (each * mask.flatten()).sum() / self.divisor(mask.sum())

        code, arrow = readable & (kind == 0), readable & (kind == 3)
        loss = F.binary_cross_entropy_with_logits(heads["card"][..., 0], there.float())
        loss = loss + classes("shape", card[..., 3], there) + classes("colour", card[..., 4], there)
        loss = loss + classes("kind", kind, readable)
        loss = loss + classes("first", card[..., 10], code) + classes("second", card[..., 11], code)
        loss = loss + classes("ticks", card[..., 12] - 1, readable & (kind == 1))
        loss = loss + classes("direction", card[..., 13], readable & (kind >= 2))
        loss = loss + 0.5 * classes("target_shape", target[..., 3], arrow)
        loss = loss + 0.5 * classes("target_colour", target[..., 4], arrow)
        # Which of a coarse cell's 4x4 places hold a payload.
        places = batch.payloads.any(1).float().view(-1, 8, 4, 8, 4).transpose(2, 3).reshape(-1, 64, 16)
        coarse = (level == 2).float()
        wanted = places.gather(1, (plan[1] * 8 + plan[2]).clamp(max=63)[..., None].expand(-1, -1, 16))
        each = F.binary_cross_entropy_with_logits(heads["places"], wanted, reduction="none").mean(-1)
        return loss + (each * coarse).sum() / self.divisor(coarse.sum())
