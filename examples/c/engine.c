/* A minimal fully sharded engine: linear layers and ReLUs, SGD and Adam, every parameter sharded by rows over all
 * ranks. Here: the calls of a script, and the table with the functions that the harness calls. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static struct group *end_of_groups(struct shardproof_trainer *t) { return t->model.groups + t->model.group_count; }

static shardproof_status forget_activations(struct shardproof_trainer *t) {
  for (size_t l = 0; l <= t->model.layer_count; ++l) TRY(release(&t->device, compute_stream, &t->model.layers[l].x));
  return SHARDPROOF_OK;
}

/* The batch of a forward is lent until the next forward after its backward. */
static shardproof_status take(struct shardproof_trainer *t, const shardproof_tensor *input) {
  if (t->model.layers[t->model.layer_count].x.buffer != NULL)
    return unsupported(&t->device, "a second forward before the backward is not supported by this engine");
  TRY(forget_activations(t));
  t->model.layers->x = borrow(&t->device, input);
  int64_t features = input->view.shape[1];
  for (struct layer *layer = t->model.layers; layer != t->model.layers + t->model.layer_count; ++layer) {
    if (layer->weight == NULL) layer->in = layer->out = features; /* a ReLU takes any number of features */
    features = layer->out;
  }
  t->model.layers[t->model.layer_count].in = features;
  return SHARDPROOF_OK;
}

/* Gathers read shards, and the optimizer writes them on the compute stream. */
static shardproof_status await_optimizer(struct shardproof_trainer *t) {
  return follow(&t->device, t->gather_stream, compute_stream);
}

static shardproof_status forward(struct shardproof_trainer *t, const shardproof_tensor *input) {
  TRY(take(t, input));
  for (size_t l = 0; l < t->model.layer_count; ++l) {
    for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) {
      if (group->first_layer != l) continue;
      if (group->is_outermost) TRY(await_optimizer(t));
      TRY(gather(t, group));
    }
    TRY(run_forward(t, &t->model.layers[l]));
    for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) {
      if (group->last_layer == l && group->reshards) TRY(reshard(t, group));
    }
  }
  TRY(give_back(t));
  return run_loss(t);
}

static shardproof_status evaluate(struct shardproof_trainer *t, const shardproof_tensor *input) {
  TRY(forward(t, input));
  return forget_activations(t); /* no backward follows */
}

/* The network carries one collective after the other. So the engine fetches the next backward's parameters before it
 * reduces the gradients of this backward. */
static shardproof_status fetch_before(struct shardproof_trainer *t, size_t layer) {
  struct group *next = NULL;
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) {
    if (group->last_layer < layer && group->part > 0 && (next == NULL || group->last_layer > next->last_layer))
      next = group;
  }
  return next != NULL ? fetch(t, next) : SHARDPROOF_OK;
}

static shardproof_status backward(struct shardproof_trainer *t) {
  TRY(run_loss_backward(t));
  for (size_t l = t->model.layer_count; l-- > 0;) {
    for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) {
      if (group->last_layer != l) continue;
      TRY(gather(t, group));
      TRY(give_back(t));
    }
    TRY(fetch_before(t, l));
    TRY(run_backward(t, &t->model.layers[l]));
    for (size_t g = 0; g < t->model.group_count; ++g) {
      /* Inner groups first. But no gradient passes the model's input. Groups that begin there end with the backward,
       * outer groups first. */
      struct group *group = &t->model.groups[l == 0 ? g : t->model.group_count - 1 - g];
      if (group->first_layer != l) continue;
      TRY(reshard(t, group));
      TRY(reduce(t, group));
    }
  }
  TRY(release(&t->device, compute_stream, &t->slope));
  return follow(&t->device, compute_stream, t->reduce_stream); /* which reads the gradients */
}

static shardproof_status step(struct shardproof_trainer *t) {
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) TRY(update(t, group));
  return SHARDPROOF_OK;
}

static shardproof_status zero_grad(struct shardproof_trainer *t) {
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group)
    TRY(release(&t->device, compute_stream, &group->gradient));
  return SHARDPROOF_OK;
}

static shardproof_status start(struct shardproof_trainer *t) {
  t->views = calloc(t->model.parameter_count + 1, sizeof *t->views);
  if (t->views == NULL) return complain(&t->device, "out of memory");
  TRY(t->device.harness->create_stream(t->device.handle, SHARDPROOF_STREAM_ALL_GATHER, "all_gather",
                                       &t->gather_stream));
  TRY(t->device.harness->create_stream(t->device.handle, SHARDPROOF_STREAM_REDUCE, "reduce_scatter",
                                       &t->reduce_stream));
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) TRY(initialise(t, group));
  return SHARDPROOF_OK;
}

/* Releases all memory in order, whatever the state of the trainer. */
static shardproof_status engine_destroy(shardproof_trainer *t, shardproof_reply *reply) {
  (void)reply; /* the harness reports its own refusals */
  follow(&t->device, compute_stream, t->gather_stream);
  follow(&t->device, compute_stream, t->reduce_stream);
  give_back(t);
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) {
    struct floats *held[] = {&group->shard,    &group->gathered,   &group->packed,    &group->mean,
                             &group->gradient, &group->moments[0], &group->moments[1]};
    for (size_t i = 0; i < 7; ++i) release(&t->device, compute_stream, held[i]);
  }
  for (size_t p = 0; p < t->model.parameter_count; ++p) {
    release(&t->device, compute_stream, &t->model.parameters[p].whole);
    release(&t->device, compute_stream, &t->model.parameters[p].whole_gradient);
  }
  forget_activations(t);
  struct floats *held[] = {&t->loss, &t->slope, &t->next_slope};
  for (size_t i = 0; i < 3; ++i) release(&t->device, compute_stream, held[i]);
  free_model(&t->model);
  free(t->views);
  free(t);
  return SHARDPROOF_OK;
}

static shardproof_status engine_create(void *context, const char *model, const char *plan,
                                       const shardproof_engine_context *engine_context, shardproof_trainer **trainer,
                                       shardproof_reply *reply) {
  (void)context;
  struct shardproof_trainer *t = calloc(1, sizeof *t);
  if (t == NULL) {
    engine_context->harness->fail(reply, "out of memory");
    return SHARDPROOF_FAILED;
  }
  t->device.harness = engine_context->harness;
  t->device.handle = engine_context->device;
  t->device.world = engine_context->world;
  shardproof_status status = read_model(&t->device, model, plan, &t->model);
  if (status == SHARDPROOF_OK) status = start(t);
  answer(&t->device, status, reply);
  if (status == SHARDPROOF_OK) *trainer = t;
  else engine_destroy(t, reply);
  return status;
}

/* An action without arguments is a JSON text of its name alone. */
static shardproof_status engine_perform(shardproof_trainer *t, const char *action, const shardproof_tensor *input,
                                        const shardproof_tensor *targets, shardproof_reply *reply) {
  (void)targets; /* only for losses that this engine does not have */
  shardproof_status status;
  if (strcmp(action, "\"forward\"") == 0) status = forward(t, input);
  else if (strcmp(action, "\"evaluate\"") == 0) status = evaluate(t, input);
  else if (strcmp(action, "\"backward\"") == 0) status = backward(t);
  else if (strcmp(action, "\"step\"") == 0) status = step(t);
  else if (strcmp(action, "\"zero_grad\"") == 0) status = zero_grad(t);
  else status = unsupported(&t->device, "%s is not supported by this engine", action);
  return answer(&t->device, status, reply);
}

static shardproof_status engine_loss(shardproof_trainer *t, shardproof_tensor *loss, shardproof_reply *reply) {
  (void)reply;
  *loss = tensor(t->loss, 0, NULL);
  return SHARDPROOF_OK;
}

static shardproof_status engine_parameters(shardproof_trainer *t, const shardproof_parameter **parameters,
                                           size_t *count, shardproof_reply *reply) {
  (void)reply;
  for (struct group *group = t->model.groups; group != end_of_groups(t); ++group) show(t, group);
  *parameters = t->views;
  *count = t->model.parameter_count;
  return SHARDPROOF_OK;
}

__attribute__((visibility("default"))) const shardproof_subject *shardproof_subject_table(void) {
  /* The suites skip cases of features that are not claimed. */
  static const char *const features[] = {"timeline", "serial", "hidden_memory", "thread_ranks", NULL};
  static const shardproof_claim claims[] = {{.engine = "fully_shard", .features = features}};
  static const shardproof_subject table = {.abi_version = SHARDPROOF_ABI_VERSION,
                                           .size = sizeof table,
                                           .name = "c_engine",
                                           .version = "1",
                                           .claims = claims,
                                           .claim_count = sizeof claims / sizeof claims[0],
                                           .create = engine_create,
                                           .destroy = engine_destroy,
                                           .perform = engine_perform,
                                           .loss = engine_loss,
                                           .parameters = engine_parameters};
  return &table;
}
