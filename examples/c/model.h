/* The model: layers in the order in which they run, their parameters, and the groups in which parameters are gathered
 * and reduced. It is read from the two documents that create an engine. */
#ifndef MODEL_H
#define MODEL_H

#include "device.h"

/* Sharded by rows, `chunk` of them to each rank. So the last ranks may have fewer, or none; zeros pad their shards. */
struct parameter {
  char name[longest_text];
  int64_t shape[2], shard_shape[2]; /* of a shard: without the padding */
  int ndim;
  uint64_t width, chunk; /* elements of a row; rows */
  uint64_t offset; /* elements, in a shard of its group */
  struct floats whole, whole_gradient;
};

struct group {
  char tag[longest_text]; /* its module: the name of the group for collectives and costs */
  struct parameter **parameters;
  size_t parameter_count;
  size_t first_layer, last_layer; /* while these run, parameters are whole */
  int ranks, rank; /* it is sharded over these ranks; 1 and 0 for parameters that no group of the plan holds */
  bool reshards; /* frees whole parameters after forward */
  bool is_outermost; /* no other group of the plan contains it */
  bool is_whole;
  uint64_t part; /* elements of a shard: of all its parameters, with padding */
  struct floats shard, gathered; /* this rank's, and those of all, from `arrived` on */
  uint64_t arrived; /* an event */
  struct floats packed, mean; /* this rank's whole gradients, and its shard of their mean over all ranks */
  struct floats gradient; /* the sum of all means since `zero_grad` */
  struct floats moments[2]; /* of Adam, as long as the shard */
  int steps;
};

struct layer {
  char path[longest_text];
  struct parameter *weight, *bias; /* of a linear layer; without a weight it is a ReLU */
  int64_t in, out; /* features */
  int64_t forward_sleep, backward_sleep; /* nanoseconds in addition to its own work */
  struct floats x; /* its input, from forward to backward */
};

struct loss {
  enum { LOSS_SUM, LOSS_SUM_OF_SQUARES, LOSS_DOT } kind;
  float divisor;
  uint32_t seed;
};

struct optimizer {
  enum { SGD, ADAM, ADAMW } kind;
  float rate, beta1, beta2, epsilon, decay;
};

struct model {
  struct layer *layers; /* and one more: its x is the model's output */
  struct parameter *parameters; /* in order of registration */
  struct group *groups; /* outer ones first; the first of all has what no group of the plan holds */
  size_t layer_count, parameter_count, group_count;
  struct loss loss;
  int init_divisor;
  struct optimizer optimizer;
};

/* Refuses unknown keys: an engine that ignores a key trains something else than the script asks for. */
shardproof_status read_model(struct device *device, const char *model_text, const char *plan_text, struct model *model);
void free_model(struct model *model);

/* The values that every engine begins with: an integer from -4 to 4. */
int formula(uint32_t seed, uint32_t index);

#endif
