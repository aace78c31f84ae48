/* Short functions for the harness's table: floats in its memory, order between streams, and work and collectives with
 * the memory that they touch.
 *
 * Functions return a status. If it is not SHARDPROOF_OK, `answer` gives the harness the reason. */
#ifndef DEVICE_H
#define DEVICE_H

#include <shardproof.h>
#include <stdbool.h>

#define TRY(call)                             \
  do {                                        \
    const shardproof_status ended = (call);   \
    if (ended != SHARDPROOF_OK) return ended; \
  } while (0)

enum { compute_stream = SHARDPROOF_COMPUTE_STREAM, most_spans = 256, longest_text = 512 };

/* Elements of a buffer. Without elements, all members are zero. */
struct floats {
  shardproof_buffer *buffer;
  float *data;
  uint64_t start, count; /* elements of the buffer */
  bool is_lent; /* by the harness: the engine does not release it */
};

struct device {
  const shardproof_harness *harness;
  shardproof_device *handle;
  shardproof_group *world;
  shardproof_span reads[most_spans], writes[most_spans]; /* of the next work */
  size_t read_count, write_count;
  char problem[longest_text]; /* empty: ask the harness for the reason */
};

/* Both keep the text for `answer`. They return SHARDPROOF_FAILED and SHARDPROOF_UNSUPPORTED. */
shardproof_status complain(struct device *device, const char *format, ...);
shardproof_status unsupported(struct device *device, const char *format, ...);
/* Returns `status`. If it is not SHARDPROOF_OK, the harness gets the reason. */
shardproof_status answer(struct device *device, shardproof_status status, shardproof_reply *reply);

shardproof_status allocate(struct device *device, uint32_t stream, shardproof_memory memory, const char *label,
                           uint64_t count, struct floats *floats);
/* The memory is released after all work that is on the stream so far. */
shardproof_status release(struct device *device, uint32_t stream, struct floats *floats);
struct floats part(struct floats floats, uint64_t start, uint64_t count);
/* Memory that the harness lends is in a buffer. */
struct floats borrow(const struct device *device, const shardproof_tensor *tensor);
shardproof_tensor tensor(struct floats floats, int ndim, int64_t *shape);

/* Work that is put on `later` from now on waits for all work that is on `earlier` so far. */
shardproof_status follow(struct device *device, uint32_t later, uint32_t earlier);

/* Declare the memory that the next work touches. The harness finds races only in declared memory. */
void reads(struct device *device, struct floats floats);
void writes(struct device *device, struct floats floats);
shardproof_status submit(struct device *device, uint32_t stream, shardproof_work_kind kind, const char *label,
                         int64_t cost_ns, void (*compute)(const void *of), const void *of);
shardproof_status communicate(struct device *device, uint32_t stream, shardproof_collective_kind kind,
                              shardproof_reduce_op op, struct floats in, struct floats out, const char *tag);

#endif
