/* On every rank, the parameters of a group are in one flat shard. A gather fetches the shards of all ranks, one after
 * the other, and unpacks them into whole parameters. A reduction packs whole gradients in the same order, so every
 * rank gets its own shard of their mean. Each kind of collective has its own stream. Events order the streams, and the
 * host waits for nothing. */
#include <math.h>
#include <string.h>

#include "engine.h"

static uint64_t elements(const struct parameter *p) { return (uint64_t)p->shape[0] * p->width; }

/* A rank's part of a parameter: so many elements from this place on. The rest of its chunk is padding. */
struct share {
  uint64_t start, count;
};

static struct share share_of(const struct parameter *p, int rank) {
  const uint64_t chunk = p->chunk * p->width, all = elements(p), start = (uint64_t)rank * chunk;
  if (start >= all) return (struct share){all, 0};
  return (struct share){start, all - start < chunk ? all - start : chunk};
}

/* The operands of the functions that are put on streams. */
struct filling {
  const struct group *group;
  const struct model *model;
};

static void fill(const void *of) {
  const struct filling *filling = of;
  const struct group *group = filling->group;
  memset(group->shard.data, 0, group->part * sizeof(float));
  for (size_t i = 0; i < group->parameter_count; ++i) {
    const struct parameter *p = group->parameters[i];
    const struct share mine = share_of(p, group->rank);
    const uint32_t seed = (uint32_t)(p - filling->model->parameters) + 1;
    for (uint64_t e = 0; e < mine.count; ++e)
      group->shard.data[p->offset + e] =
          (float)formula(seed, (uint32_t)(mine.start + e)) / (float)filling->model->init_divisor;
  }
}

static void unpack(const void *of) {
  const struct group *group = of;
  const float *all = group->ranks > 1 ? group->gathered.data : group->shard.data;
  for (size_t i = 0; i < group->parameter_count; ++i) {
    const struct parameter *p = group->parameters[i];
    for (int rank = 0; rank < group->ranks; ++rank) {
      const struct share share = share_of(p, rank);
      memcpy(p->whole.data + share.start, all + (uint64_t)rank * group->part + p->offset, share.count * sizeof(float));
    }
  }
}

/* Computes on the padding, too: it is zero everywhere, and stays zero. */
static void pack(const void *of) {
  const struct group *group = of;
  float *all = group->ranks > 1 ? group->packed.data : group->mean.data;
  memset(all, 0, (uint64_t)group->ranks * group->part * sizeof(float));
  for (size_t i = 0; i < group->parameter_count; ++i) {
    const struct parameter *p = group->parameters[i];
    for (int rank = 0; rank < group->ranks; ++rank) {
      const struct share share = share_of(p, rank);
      memcpy(all + (uint64_t)rank * group->part + p->offset, p->whole_gradient.data + share.start,
             share.count * sizeof(float));
    }
  }
}

static void add(const void *of) {
  const struct group *group = of;
  for (uint64_t i = 0; i < group->part; ++i) group->gradient.data[i] += group->mean.data[i];
}

static void clear(const void *of) {
  const struct floats *floats = of;
  memset(floats->data, 0, floats->count * sizeof(float));
}

/* One step on this rank's share of a parameter; `number` counts from 1. */
struct step {
  struct floats shard, gradient, first, second;
  const struct optimizer *optimizer;
  int number;
};

static void descend(const void *of) {
  const struct step *step = of;
  for (uint64_t i = 0; i < step->shard.count; ++i)
    step->shard.data[i] -= step->optimizer->rate * step->gradient.data[i];
}

static void adam(const void *of) {
  const struct step *step = of;
  const struct optimizer *by = step->optimizer;
  const double scale1 = 1 - pow(by->beta1, step->number), scale2 = 1 - pow(by->beta2, step->number);
  for (uint64_t i = 0; i < step->shard.count; ++i) {
    float *p = &step->shard.data[i], *first = &step->first.data[i], *second = &step->second.data[i];
    const float slope = step->gradient.data[i] + (by->kind == ADAM ? by->decay * *p : 0);
    if (by->kind == ADAMW) *p -= by->rate * by->decay * *p;
    *first = by->beta1 * *first + (1 - by->beta1) * slope;
    *second = by->beta2 * *second + (1 - by->beta2) * slope * slope;
    *p -= (float)(by->rate * (*first / scale1) / (sqrt(*second / scale2) + by->epsilon));
  }
}

shardproof_status initialise(struct shardproof_trainer *t, struct group *group) {
  const struct filling filling = {group, &t->model};
  if (group->part == 0) return SHARDPROOF_OK;
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_SHARD, group->tag, group->part, &group->shard));
  writes(&t->device, group->shard);
  return submit(&t->device, compute_stream, SHARDPROOF_WORK_FILL, group->tag, 0, fill, &filling);
}

shardproof_status fetch(struct shardproof_trainer *t, struct group *group) {
  struct device *device = &t->device;
  if (group->is_whole || group->gathered.buffer != NULL) return SHARDPROOF_OK;
  if (group->ranks == 1 || group->part == 0) return SHARDPROOF_OK; /* one rank has it all, and needs no collective */
  const uint64_t all = (uint64_t)group->ranks * group->part;
  TRY(allocate(device, t->gather_stream, SHARDPROOF_MEMORY_GATHERED, group->tag, all, &group->gathered));
  TRY(communicate(device, t->gather_stream, SHARDPROOF_ALL_GATHER, SHARDPROOF_OP_NONE, group->shard, group->gathered,
                  group->tag));
  return device->harness->record(device->handle, t->gather_stream, &group->arrived);
}

shardproof_status gather(struct shardproof_trainer *t, struct group *group) {
  struct device *device = &t->device;
  if (group->is_whole || group->part == 0) return SHARDPROOF_OK;
  TRY(fetch(t, group));
  if (group->ranks > 1) TRY(device->harness->wait(device->handle, compute_stream, group->arrived));
  reads(device, group->ranks > 1 ? group->gathered : group->shard);
  for (size_t i = 0; i < group->parameter_count; ++i) {
    struct parameter *p = group->parameters[i];
    TRY(allocate(device, compute_stream, SHARDPROOF_MEMORY_PARAMETER, p->name, elements(p), &p->whole));
    writes(device, p->whole);
  }
  TRY(submit(device, compute_stream, SHARDPROOF_WORK_COPY_OUT, group->tag, 0, unpack, group));
  group->is_whole = true;
  if (group->ranks == 1) return SHARDPROOF_OK;
  TRY(give_back(t)); /* of the group before: so a gather runs during the unpacking of the gather before it */
  t->unpacked = group->gathered;
  group->gathered = (struct floats){0};
  return device->harness->record(device->handle, compute_stream, &t->unpacked_at);
}

/* The next gather may get this memory: it waits until the compute stream has read it. */
shardproof_status give_back(struct shardproof_trainer *t) {
  if (t->unpacked.buffer == NULL) return SHARDPROOF_OK;
  TRY(t->device.harness->wait(t->device.handle, t->gather_stream, t->unpacked_at));
  return release(&t->device, t->gather_stream, &t->unpacked);
}

shardproof_status reshard(struct shardproof_trainer *t, struct group *group) {
  group->is_whole = false;
  for (size_t i = 0; i < group->parameter_count; ++i)
    TRY(release(&t->device, compute_stream, &group->parameters[i]->whole));
  return SHARDPROOF_OK;
}

static shardproof_status add_mean(struct shardproof_trainer *t, struct group *group, uint32_t stream) {
  if (group->gradient.buffer == NULL) {
    group->gradient = group->mean;
    group->mean = (struct floats){0};
    return SHARDPROOF_OK;
  }
  reads(&t->device, group->mean);
  reads(&t->device, group->gradient);
  writes(&t->device, group->gradient);
  TRY(submit(&t->device, stream, SHARDPROOF_WORK_REDUCE_COPY_OUT, group->tag, 0, add, group));
  return release(&t->device, stream, &group->mean);
}

shardproof_status reduce(struct shardproof_trainer *t, struct group *group) {
  struct device *device = &t->device;
  const uint64_t all = (uint64_t)group->ranks * group->part;
  if (all == 0) return SHARDPROOF_OK;
  if (group->ranks > 1) TRY(follow(device, compute_stream, t->reduce_stream)); /* at most one reduction runs */
  TRY(allocate(device, compute_stream, SHARDPROOF_MEMORY_SHARDED_GRADIENT, group->tag, group->part, &group->mean));
  if (group->ranks > 1)
    TRY(allocate(device, compute_stream, SHARDPROOF_MEMORY_REDUCE_INPUT, group->tag, all, &group->packed));
  for (size_t i = 0; i < group->parameter_count; ++i) reads(device, group->parameters[i]->whole_gradient);
  writes(device, group->ranks > 1 ? group->packed : group->mean);
  TRY(submit(device, compute_stream, SHARDPROOF_WORK_REDUCE_COPY_IN, group->tag, 0, pack, group));
  for (size_t i = 0; i < group->parameter_count; ++i)
    TRY(release(device, compute_stream, &group->parameters[i]->whole_gradient));
  if (group->ranks == 1) return add_mean(t, group, compute_stream);
  TRY(follow(device, t->reduce_stream, compute_stream));
  TRY(communicate(device, t->reduce_stream, SHARDPROOF_REDUCE_SCATTER, SHARDPROOF_OP_AVG, group->packed, group->mean,
                  group->tag));
  TRY(release(device, t->reduce_stream, &group->packed));
  return add_mean(t, group, t->reduce_stream);
}

static shardproof_status make_moments(struct shardproof_trainer *t, struct group *group) {
  for (struct floats *moment = group->moments; moment != group->moments + 2; ++moment) {
    if (moment->buffer != NULL) continue;
    TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_OPTIMIZER_STATE, group->tag, group->part, moment));
    writes(&t->device, *moment);
    TRY(submit(&t->device, compute_stream, SHARDPROOF_WORK_FILL, group->tag, 0, clear, moment));
  }
  return SHARDPROOF_OK;
}

shardproof_status update(struct shardproof_trainer *t, struct group *group) {
  const bool is_adam = t->model.optimizer.kind != SGD;
  TRY(reshard(t, group)); /* whole parameters are out of date from here on */
  if (group->gradient.buffer == NULL) return SHARDPROOF_OK;
  if (is_adam) TRY(make_moments(t, group));
  ++group->steps;
  for (size_t i = 0; i < group->parameter_count; ++i) {
    const struct parameter *p = group->parameters[i];
    const uint64_t count = share_of(p, group->rank).count;
    if (count == 0) continue;
    struct step step = {.optimizer = &t->model.optimizer, .number = group->steps};
    const struct floats *of_group[] = {&group->shard, &group->gradient, &group->moments[0], &group->moments[1]};
    struct floats *of_step[] = {&step.shard, &step.gradient, &step.first, &step.second};
    for (size_t f = 0; f < (is_adam ? 4 : 2); ++f) {
      *of_step[f] = part(*of_group[f], p->offset, count);
      reads(&t->device, *of_step[f]);
      if (f != 1) writes(&t->device, *of_step[f]); /* all but the gradient */
    }
    TRY(submit(&t->device, compute_stream, SHARDPROOF_WORK_OPTIMIZER, p->name, 0, is_adam ? adam : descend, &step));
  }
  return SHARDPROOF_OK;
}

void show(struct shardproof_trainer *t, struct group *group) {
  for (size_t i = 0; i < group->parameter_count; ++i) {
    struct parameter *p = group->parameters[i];
    const struct share mine = share_of(p, group->rank);
    shardproof_parameter *view = &t->views[p - t->model.parameters];
    *view = (shardproof_parameter){
        .name = p->name, .shape = p->shape, .ndim = p->ndim, .start = (int64_t)(mine.start / p->width)};
    view->shard = tensor(part(group->shard, p->offset, mine.count), p->ndim, p->shard_shape);
    if (group->gradient.buffer != NULL)
      view->gradient = tensor(part(group->gradient, p->offset, mine.count), p->ndim, p->shard_shape);
  }
}
