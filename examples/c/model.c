#include "model.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *member(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* A key that a document leaves out has its default. */
static double number(const cJSON *object, const char *key, double usual) {
  const cJSON *value = member(object, key);
  return cJSON_IsNumber(value) ? value->valuedouble : usual;
}

static const char *text(const cJSON *object, const char *key, const char *usual) {
  const char *value = cJSON_GetStringValue(member(object, key));
  return value != NULL ? value : usual;
}

/* "25ms", or a number of nanoseconds. */
static int64_t duration(const cJSON *object, const char *key) {
  char *unit;
  const double value = strtod(text(object, key, ""), &unit);
  const double ns = *unit == 's' ? 1e9 : *unit == 'm' ? 1e6 : *unit == 'u' ? 1e3 : 1;
  return llround(number(object, key, value * ns));
}

/* `known`: keys, each with a blank after it. */
static shardproof_status expect_keys(struct device *device, const cJSON *object, const char *where, const char *known) {
  const cJSON *value;
  cJSON_ArrayForEach(value, object) {
    char key[longest_text];
    snprintf(key, sizeof key, "%s ", value->string);
    if (strstr(known, key) != NULL) continue;
    char *said = cJSON_PrintUnformatted(value);
    unsupported(device, "%s: \"%s\" (%s) is not supported by this engine", where, value->string, said);
    cJSON_free(said);
    return SHARDPROOF_UNSUPPORTED;
  }
  return SHARDPROOF_OK;
}

static void join(char whole[longest_text], const char *path, const char *name) {
  snprintf(whole, longest_text, "%s%s%s", path, *path != '\0' ? "." : "", name);
}

static bool is_at_or_under(const char *path, const char *ancestor) {
  const size_t length = strlen(ancestor);
  return length == 0 || (strncmp(path, ancestor, length) == 0 && (path[length] == '\0' || path[length] == '.'));
}

static size_t count_modules(const cJSON *module) {
  size_t count = 1;
  const cJSON *child;
  cJSON_ArrayForEach(child, member(module, "children")) count += count_modules(child);
  return count;
}

static struct parameter *add(struct model *model, const char *path, const char *name, int ndim, int64_t rows,
                             int64_t width) {
  struct parameter *parameter = &model->parameters[model->parameter_count++];
  join(parameter->name, path, name);
  parameter->ndim = ndim;
  parameter->shape[0] = rows;
  parameter->shape[1] = width;
  parameter->width = (uint64_t)width;
  return parameter;
}

static shardproof_status read_module(struct device *device, const cJSON *json, const char *path, struct model *model) {
  const char *kind = text(json, "kind", "");
  if (strcmp(kind, "sequential") == 0) {
    const cJSON *child;
    cJSON_ArrayForEach(child, member(json, "children")) {
      char child_path[longest_text];
      join(child_path, path, text(child, "name", ""));
      TRY(read_module(device, child, child_path, model));
    }
    return expect_keys(device, json, path, "name kind children ");
  }
  struct layer *layer = &model->layers[model->layer_count++];
  snprintf(layer->path, sizeof layer->path, "%s", path);
  if (cJSON_IsFalse(member(json, "contiguous")))
    return unsupported(device, "\"%s.weight\": transposed is not supported by this engine", path);
  if (strcmp(kind, "relu") == 0) return expect_keys(device, json, path, "name kind ");
  if (strcmp(kind, "linear") != 0)
    return unsupported(device, "\"%s\": a module of kind \"%s\" is not supported by this engine", path, kind);
  layer->in = (int64_t)number(json, "in_features", 0);
  layer->out = (int64_t)number(json, "out_features", 0);
  layer->forward_sleep = duration(json, "forward_sleep");
  layer->backward_sleep = duration(json, "backward_sleep");
  layer->weight = add(model, path, "weight", 2, layer->out, layer->in);
  if (!cJSON_IsFalse(member(json, "bias"))) layer->bias = add(model, path, "bias", 1, layer->out, 1);
  return expect_keys(device, json, path,
                     "name kind in_features out_features bias contiguous forward_sleep backward_sleep ");
}

static shardproof_status read_loss(struct device *device, const cJSON *json, struct loss *loss) {
  const char *kind = text(json, "kind", "sum");
  loss->divisor = (float)number(json, "divisor", 1);
  loss->seed = (uint32_t)number(json, "seed", 7);
  if (strcmp(kind, "sum") == 0) loss->kind = LOSS_SUM;
  else if (strcmp(kind, "sum_of_squares") == 0) loss->kind = LOSS_SUM_OF_SQUARES;
  else if (strcmp(kind, "dot") == 0) loss->kind = LOSS_DOT;
  else return unsupported(device, "model.loss: \"%s\" is not supported by this engine", kind);
  return SHARDPROOF_OK;
}

static shardproof_status read_group(struct device *device, const cJSON *json, struct model *model) {
  struct group *group = &model->groups[model->group_count++];
  const cJSON *modules = member(json, "modules"), *reshards = member(json, "reshard_after_forward");
  snprintf(group->tag, sizeof group->tag, "%s", cJSON_GetStringValue(cJSON_GetArrayItem(modules, 0)));
  if (cJSON_GetArraySize(modules) != 1)
    return unsupported(device, "\"%s\": a group of several modules is not supported by this engine", group->tag);
  group->is_outermost = true;
  if (cJSON_IsNumber(reshards))
    return unsupported(device, "\"%s\": shards over fewer ranks are not supported by this engine", group->tag);
  group->ranks = device->harness->group_size(device->world);
  group->rank = device->harness->group_rank(device->world);
  for (const struct group *other = model->groups; other != group; ++other) {
    if (other != model->groups && is_at_or_under(group->tag, other->tag)) group->is_outermost = false;
    if (strcmp(other->tag, group->tag) == 0)
      return complain(device, "plan.fully_shard.wrap: \"%s\" is wrapped twice", group->tag);
  }
  group->reshards = cJSON_IsBool(reshards) ? cJSON_IsTrue(reshards) : !group->is_outermost;
  return expect_keys(device, json, group->tag, "modules reshard_after_forward ");
}

static shardproof_status read_optimizer(struct device *device, const cJSON *json, struct optimizer *optimizer) {
  const char *kind = text(json, "kind", "sgd");
  if (strcmp(kind, "sgd") == 0) optimizer->kind = SGD;
  else if (strcmp(kind, "adam") == 0) optimizer->kind = ADAM;
  else if (strcmp(kind, "adamw") == 0) optimizer->kind = ADAMW;
  else return unsupported(device, "plan.optimizer: \"%s\" is not supported by this engine", kind);
  TRY(expect_keys(device, json, "plan.optimizer", "kind rate beta1 beta2 epsilon weight_decay "));
  optimizer->rate = (float)number(json, "rate", 0.5);
  optimizer->beta1 = (float)number(json, "beta1", 0.9);
  optimizer->beta2 = (float)number(json, "beta2", 0.999);
  optimizer->epsilon = (float)number(json, "epsilon", 1e-8);
  optimizer->decay = (float)number(json, "weight_decay", 0);
  return SHARDPROOF_OK;
}

static shardproof_status check_mesh(struct device *device, const cJSON *shape) {
  const int ranks = cJSON_GetArraySize(shape) > 0 ? cJSON_GetArrayItem(shape, 0)->valueint : -1,
            world = device->harness->group_size(device->world);
  if (cJSON_GetArraySize(shape) > 1) return unsupported(device, "plan.mesh: replicas are not supported by this engine");
  if (shape != NULL && ranks != world) return complain(device, "plan.mesh: %d ranks, in a world of %d", ranks, world);
  return SHARDPROOF_OK;
}

static shardproof_status read_plan(struct device *device, const cJSON *json, struct model *model) {
  const cJSON *section = member(json, "fully_shard"), *wrap = member(section, "wrap");
  TRY(expect_keys(device, json, "plan", "mesh optimizer fully_shard "));
  TRY(check_mesh(device, member(member(json, "mesh"), "shape")));
  TRY(read_optimizer(device, member(json, "optimizer"), &model->optimizer));
  model->groups[model->group_count++] = (struct group){.tag = "(no group)", .ranks = 1};
  for (int g = cJSON_GetArraySize(wrap); g-- > 0;)
    TRY(read_group(device, cJSON_GetArrayItem(wrap, g), model)); /* children come first */
  /* `backward_prefetch` is advice on the group to gather ahead: this engine gathers every group ahead. */
  return expect_keys(device, section, "plan.fully_shard", "wrap backward_prefetch ");
}

/* Finds the layers during which each group is needed. A group without layers begins after the last layer, so never. */
static void find_layers(struct model *model) {
  for (struct group *group = model->groups; group != model->groups + model->group_count; ++group) {
    group->first_layer = model->layer_count;
    for (size_t l = 0; l < model->layer_count; ++l) {
      if (group != model->groups && !is_at_or_under(model->layers[l].path, group->tag)) continue;
      if (group->first_layer > l) group->first_layer = l;
      group->last_layer = l;
    }
  }
}

/* Finds the group of each parameter, and this rank's rows. */
static void deal(struct model *model) {
  for (struct parameter *parameter = model->parameters; parameter != model->parameters + model->parameter_count;
       ++parameter) {
    struct group *group = model->groups;
    for (size_t g = 1; g < model->group_count; ++g) {
      if (is_at_or_under(parameter->name, model->groups[g].tag))
        group = &model->groups[g]; /* at the end, this is the innermost group */
    }
    const int64_t rows = parameter->shape[0], chunk = (rows + group->ranks - 1) / group->ranks,
                  left = rows - group->rank * chunk;
    parameter->chunk = (uint64_t)chunk;
    parameter->offset = group->part;
    parameter->shard_shape[0] = left < 0 ? 0 : left < chunk ? left : chunk;
    parameter->shard_shape[1] = parameter->shape[1];
    group->parameters[group->parameter_count++] = parameter;
    group->part += parameter->chunk * parameter->width;
  }
}

static shardproof_status read_all(struct device *device, const cJSON *json, const cJSON *plan, struct model *model) {
  const cJSON *root = member(json, "root");
  const size_t modules = count_modules(root),
               groups = (size_t)cJSON_GetArraySize(member(member(plan, "fully_shard"), "wrap")) + 1;
  model->layers = calloc(modules + 1, sizeof *model->layers);
  model->parameters = calloc(2 * modules, sizeof *model->parameters);
  model->groups = calloc(groups, sizeof *model->groups);
  if (model->layers == NULL || model->parameters == NULL || model->groups == NULL)
    return complain(device, "out of memory");
  model->init_divisor = (int)number(json, "init_divisor", 8);
  TRY(expect_keys(device, json, "model", "root loss init_divisor "));
  TRY(read_loss(device, member(json, "loss"), &model->loss));
  TRY(read_module(device, root, "", model));
  TRY(read_plan(device, plan, model));
  for (size_t g = 0; g < groups; ++g) {
    model->groups[g].parameters = calloc(model->parameter_count + 1, sizeof(struct parameter *));
    if (model->groups[g].parameters == NULL) return complain(device, "out of memory");
  }
  find_layers(model);
  deal(model);
  return SHARDPROOF_OK;
}

shardproof_status read_model(struct device *device, const char *model_text, const char *plan_text,
                             struct model *model) {
  cJSON *json = cJSON_Parse(model_text), *plan = cJSON_Parse(plan_text);
  const int failed = read_all(device, json, plan, model);
  cJSON_Delete(json);
  cJSON_Delete(plan);
  return failed;
}

void free_model(struct model *model) {
  for (size_t g = 0; g < model->group_count; ++g) free(model->groups[g].parameters);
  free(model->groups);
  free(model->parameters);
  free(model->layers);
}

int formula(uint32_t seed, uint32_t index) {
  uint32_t u = seed * 2654435761u + index * 40503u + 12345u;
  u ^= u >> 15;
  u *= 2246822519u;
  u ^= u >> 13;
  return (int)(u % 9) - 4;
}
