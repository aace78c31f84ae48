#include "device.h"

#include <stdarg.h>
#include <stdio.h>

static const DLDataType f32 = {.code = kDLFloat, .bits = 32, .lanes = 1};

shardproof_status complain(struct device *device, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device->problem, sizeof device->problem, format, arguments);
  va_end(arguments);
  return SHARDPROOF_FAILED;
}

shardproof_status unsupported(struct device *device, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device->problem, sizeof device->problem, format, arguments);
  va_end(arguments);
  return SHARDPROOF_UNSUPPORTED;
}

shardproof_status answer(struct device *device, shardproof_status status, shardproof_reply *reply) {
  const char *text = *device->problem != '\0' ? device->problem : device->harness->error(device->handle);
  if (status != SHARDPROOF_OK) device->harness->fail(reply, text);
  *device->problem = '\0';
  device->read_count = device->write_count = 0;
  return status;
}

shardproof_status allocate(struct device *device, uint32_t stream, shardproof_memory memory, const char *label,
                           uint64_t count, struct floats *floats) {
  shardproof_buffer *buffer;
  TRY(device->harness->allocate(device->handle, stream, count * sizeof(float), memory, label, &buffer));
  *floats = (struct floats){.buffer = buffer, .data = device->harness->data(buffer), .count = count};
  return SHARDPROOF_OK;
}

shardproof_status release(struct device *device, uint32_t stream, struct floats *floats) {
  const struct floats given = *floats;
  *floats = (struct floats){.buffer = NULL};
  return given.buffer != NULL && !given.is_lent ? device->harness->release(device->handle, stream, given.buffer)
                                                : SHARDPROOF_OK;
}

struct floats part(struct floats floats, uint64_t start, uint64_t count) {
  return (struct floats){floats.buffer, floats.data + start, floats.start + start, count, floats.is_lent};
}

struct floats borrow(const struct device *device, const shardproof_tensor *tensor) {
  float *data = (float *)((char *)tensor->view.data + tensor->view.byte_offset);
  const float *begin = device->harness->data(tensor->buffer);
  struct floats floats = {
      .buffer = tensor->buffer, .data = data, .start = (uint64_t)(data - begin), .count = 1, .is_lent = true};
  for (int d = 0; d < tensor->view.ndim; ++d) floats.count *= (uint64_t)tensor->view.shape[d];
  return floats;
}

shardproof_tensor tensor(struct floats floats, int ndim, int64_t *shape) {
  if (floats.buffer == NULL) return (shardproof_tensor){.buffer = NULL}; /* undefined */
  const DLTensor view = {
      .data = floats.data, .device = {.device_type = kDLCPU}, .ndim = ndim, .dtype = f32, .shape = shape};
  return (shardproof_tensor){.view = view, .buffer = floats.buffer};
}

shardproof_status follow(struct device *device, uint32_t later, uint32_t earlier) {
  uint64_t event;
  TRY(device->harness->record(device->handle, earlier, &event));
  return device->harness->wait(device->handle, later, event);
}

static shardproof_span span(struct floats floats) {
  return (shardproof_span){
      .buffer = floats.buffer, .offset = floats.start * sizeof(float), .count = floats.count, .dtype = f32};
}

static void say(struct device *device, shardproof_span *spans, size_t *count, struct floats floats) {
  if (floats.buffer == NULL) return;
  if (*count == most_spans) complain(device, "a piece of work touches more than %d pieces of memory", most_spans);
  else spans[(*count)++] = span(floats);
}

void reads(struct device *device, struct floats floats) { say(device, device->reads, &device->read_count, floats); }
void writes(struct device *device, struct floats floats) { say(device, device->writes, &device->write_count, floats); }

struct job {
  void (*compute)(const void *of);
  const void *of;
};

static shardproof_status run_job(void *context, void *native_stream, shardproof_reply *reply) {
  const struct job *job = context;
  (void)native_stream, (void)reply; /* on a GPU the kernels go onto this stream */
  job->compute(job->of);
  return SHARDPROOF_OK;
}

shardproof_status submit(struct device *device, uint32_t stream, shardproof_work_kind kind, const char *label,
                         int64_t cost_ns, void (*compute)(const void *of), const void *of) {
  if (*device->problem != '\0') return SHARDPROOF_FAILED;
  struct job job = {compute, of}; /* runs before `submit` of the harness returns */
  const shardproof_work work = {.kind = kind,
                                .label = label,
                                .reads = device->reads,
                                .writes = device->writes,
                                .read_count = device->read_count,
                                .write_count = device->write_count,
                                .cost_ns = cost_ns,
                                .run = run_job,
                                .context = &job};
  device->read_count = device->write_count = 0;
  return device->harness->submit(device->handle, stream, &work);
}

shardproof_status communicate(struct device *device, uint32_t stream, shardproof_collective_kind kind,
                              shardproof_reduce_op op, struct floats in, struct floats out, const char *tag) {
  const shardproof_collective collective = {.kind = kind, .op = op, .in = span(in), .out = span(out), .tag = tag};
  return device->harness->run(device->world, stream, &collective);
}
