/* The work on the compute stream: linear layers y = x Wᵀ + b, ReLUs, and the loss. */
#include <string.h>

#include "engine.h"

/* The operands of the forward and the backward of a layer, or of the loss. A slope is the derivative of the loss by
 * the value in its name. */
struct pass {
  int64_t in, out; /* features */
  struct floats x, y, weight, bias;
  struct floats slope_x, slope_y, slope_weight, slope_bias;
  struct loss loss;
};

static void linear_forward(const void *of) {
  const struct pass *pass = of;
  for (uint64_t i = 0; i < pass->y.count; ++i) {
    const int64_t row = (int64_t)i / pass->out, o = (int64_t)i % pass->out;
    float sum = pass->bias.data != NULL ? pass->bias.data[o] : 0;
    for (int64_t k = 0; k < pass->in; ++k)
      sum += pass->x.data[row * pass->in + k] * pass->weight.data[o * pass->in + k];
    pass->y.data[i] = sum;
  }
}

static void linear_backward(const void *of) {
  const struct pass *pass = of;
  const struct floats sums[] = {pass->slope_x, pass->slope_weight, pass->slope_bias};
  for (size_t i = 0; i < 3; ++i) {
    if (sums[i].data != NULL) memset(sums[i].data, 0, sums[i].count * sizeof(float));
  }
  for (uint64_t i = 0; i < pass->slope_y.count; ++i) {
    const int64_t row = (int64_t)i / pass->out, o = (int64_t)i % pass->out;
    const float slope = pass->slope_y.data[i];
    if (pass->slope_bias.data != NULL) pass->slope_bias.data[o] += slope;
    for (int64_t k = 0; k < pass->in; ++k) {
      pass->slope_weight.data[o * pass->in + k] += slope * pass->x.data[row * pass->in + k];
      pass->slope_x.data[row * pass->in + k] += slope * pass->weight.data[o * pass->in + k];
    }
  }
}

static void relu_forward(const void *of) {
  const struct pass *pass = of;
  for (uint64_t i = 0; i < pass->y.count; ++i) pass->y.data[i] = pass->x.data[i] > 0 ? pass->x.data[i] : 0;
}

static void relu_backward(const void *of) {
  const struct pass *pass = of;
  for (uint64_t i = 0; i < pass->x.count; ++i) pass->slope_x.data[i] = pass->x.data[i] > 0 ? pass->slope_y.data[i] : 0;
}

/* The loss is the sum of all outputs, each times a factor: 1, itself, or an element of a row by formula. The sum of
 * squares is divided. */
static float factor(const struct pass *pass, uint64_t i) {
  if (pass->loss.kind == LOSS_DOT)
    return (float)formula(pass->loss.seed, (uint32_t)(i % (uint64_t)pass->in)) / pass->loss.divisor;
  return pass->loss.kind == LOSS_SUM_OF_SQUARES ? pass->x.data[i] : 1;
}

static void loss_forward(const void *of) {
  const struct pass *pass = of;
  float sum = 0;
  for (uint64_t i = 0; i < pass->x.count; ++i) sum += pass->x.data[i] * factor(pass, i);
  *pass->y.data = pass->loss.kind == LOSS_SUM_OF_SQUARES ? sum / pass->loss.divisor : sum;
}

static void loss_backward(const void *of) {
  const struct pass *pass = of;
  for (uint64_t i = 0; i < pass->x.count; ++i)
    pass->slope_x.data[i] =
        pass->loss.kind == LOSS_SUM_OF_SQUARES ? 2 * factor(pass, i) / pass->loss.divisor : factor(pass, i);
}

/* A pass with its x and parameters, declared as read. */
static struct pass pass_of(struct shardproof_trainer *t, const struct layer *layer) {
  struct pass pass = {.in = layer->in, .out = layer->out, .x = layer->x};
  if (layer->weight != NULL) pass.weight = layer->weight->whole;
  if (layer->bias != NULL) pass.bias = layer->bias->whole;
  reads(&t->device, pass.x);
  reads(&t->device, pass.weight);
  return pass;
}

static shardproof_status make_slope(struct shardproof_trainer *t, struct parameter *p, struct floats *slope) {
  if (p == NULL) return SHARDPROOF_OK;
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_GRADIENT, p->name, p->whole.count, &p->whole_gradient));
  writes(&t->device, p->whole_gradient);
  *slope = p->whole_gradient;
  return SHARDPROOF_OK;
}

shardproof_status run_forward(struct shardproof_trainer *t, struct layer *layer) {
  const uint64_t outputs = layer->x.count / (uint64_t)layer->in * (uint64_t)layer->out;
  struct floats *y = &layer[1].x;
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_ACTIVATION, layer->path, outputs, y));
  struct pass pass = pass_of(t, layer);
  pass.y = *y;
  reads(&t->device, pass.bias);
  writes(&t->device, pass.y);
  return submit(&t->device, compute_stream, SHARDPROOF_WORK_FORWARD, layer->path, layer->forward_sleep,
                layer->weight != NULL ? linear_forward : relu_forward, &pass);
}

/* Its input of the forward, and the slope by its output, are no longer necessary. */
shardproof_status run_backward(struct shardproof_trainer *t, struct layer *layer) {
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_ACTIVATION, layer->path, layer->x.count, &t->next_slope));
  struct pass pass = pass_of(t, layer);
  pass.slope_y = t->slope;
  pass.slope_x = t->next_slope;
  reads(&t->device, pass.slope_y);
  writes(&t->device, pass.slope_x);
  TRY(make_slope(t, layer->weight, &pass.slope_weight));
  TRY(make_slope(t, layer->bias, &pass.slope_bias));
  TRY(submit(&t->device, compute_stream, SHARDPROOF_WORK_BACKWARD, layer->path, layer->backward_sleep,
             layer->weight != NULL ? linear_backward : relu_backward, &pass));
  TRY(release(&t->device, compute_stream, &t->slope));
  t->slope = t->next_slope;
  t->next_slope = (struct floats){0};
  return release(&t->device, compute_stream, &layer->x);
}

shardproof_status run_loss(struct shardproof_trainer *t) {
  const struct layer *output = &t->model.layers[t->model.layer_count];
  TRY(release(&t->device, compute_stream, &t->loss));
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_ACTIVATION, "loss", 1, &t->loss));
  struct pass pass = pass_of(t, output);
  pass.loss = t->model.loss;
  pass.y = t->loss;
  writes(&t->device, pass.y);
  return submit(&t->device, compute_stream, SHARDPROOF_WORK_LOSS, "loss", 0, loss_forward, &pass);
}

shardproof_status run_loss_backward(struct shardproof_trainer *t) {
  struct layer *output = &t->model.layers[t->model.layer_count];
  TRY(allocate(&t->device, compute_stream, SHARDPROOF_MEMORY_ACTIVATION, "slope", output->x.count, &t->slope));
  struct pass pass = pass_of(t, output);
  pass.loss = t->model.loss;
  pass.slope_x = t->slope;
  writes(&t->device, pass.slope_x);
  TRY(submit(&t->device, compute_stream, SHARDPROOF_WORK_LOSS, "slope", 0, loss_backward, &pass));
  return release(&t->device, compute_stream, &output->x);
}
