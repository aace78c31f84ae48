/* The engine on one rank, and the functions that its files share. */
#ifndef ENGINE_H
#define ENGINE_H

#include "model.h"

struct shardproof_trainer {
  struct device device;
  struct model model;
  uint32_t gather_stream, reduce_stream;
  struct floats unpacked; /* the last gathered memory, which has been unpacked at `unpacked_at`, an event */
  uint64_t unpacked_at;
  struct floats loss;
  struct floats slope, next_slope; /* of the loss, by the output and by the input of the layer whose backward runs */
  shardproof_parameter *views;     /* by parameter */
};

/* groups.c */
shardproof_status initialise(struct shardproof_trainer *t, struct group *group); /* makes the shard */
shardproof_status fetch(struct shardproof_trainer *t, struct group *group); /* begins to gather, unless it has begun */
shardproof_status gather(struct shardproof_trainer *t,
                         struct group *group); /* shards become whole parameters, if they are not */
shardproof_status give_back(struct shardproof_trainer *t); /* the memory that was unpacked last */
shardproof_status reshard(struct shardproof_trainer *t, struct group *group); /* frees whole parameters */
shardproof_status reduce(struct shardproof_trainer *t,
                         struct group *group); /* whole gradients become the shard of their mean */
shardproof_status update(struct shardproof_trainer *t, struct group *group);
void show(struct shardproof_trainer *t, struct group *group); /* its views */

/* layers.c */
shardproof_status run_forward(struct shardproof_trainer *t,
                              struct layer *layer); /* from its x to that of the next one */
shardproof_status run_backward(struct shardproof_trainer *t, struct layer *layer);
shardproof_status run_loss(struct shardproof_trainer *t);
shardproof_status run_loss_backward(struct shardproof_trainer *t);

#endif
