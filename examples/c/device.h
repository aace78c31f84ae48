/* What the harness hands in, in fewer words: floats in its memory, order between streams, work and collectives with what they touch.
 *
 * Functions return 0, or 1 when something went wrong; `answer` then tells the harness what. */
#ifndef DEVICE_H
#define DEVICE_H

#include <shardproof.h>
#include <stdbool.h>

#define TRY(call)              \
  do {                         \
    if ((call) != 0) return 1; \
  } while (0)

enum { compute_stream = SHARDPROOF_COMPUTE_STREAM, most_spans = 256, longest_text = 512 };

/* Elements of a buffer; all zero where there are none. */
struct floats {
  shardproof_buffer *buffer;
  float *data;
  uint64_t start, count; /* elements of the buffer */
  bool is_lent;          /* by the harness, which has it back without a word */
};

struct device {
  const shardproof_harness *harness;
  shardproof_device *handle;
  shardproof_group *world;
  shardproof_span reads[most_spans], writes[most_spans]; /* of the work that is being put together */
  size_t read_count, write_count;
  char problem[longest_text]; /* empty where the harness knows better */
};

int complain(struct device *device, const char *format, ...);
int answer(struct device *device, int failed, shardproof_reply *reply);

int allocate(struct device *device, uint32_t stream, shardproof_memory memory, const char *label, uint64_t count, struct floats *floats);
/* The memory stays until all that has been put on the stream so far has ended. */
int release(struct device *device, uint32_t stream, struct floats *floats);
struct floats part(struct floats floats, uint64_t start, uint64_t count);
/* What the harness lends lies in a buffer. */
struct floats borrow(const struct device *device, const shardproof_tensor *tensor);
shardproof_tensor tensor(struct floats floats, int ndim, int64_t *shape);

/* What is put on `later` from now on waits for all that is on `earlier` so far. */
int follow(struct device *device, uint32_t later, uint32_t earlier);

/* What the next work touches. Nobody finds a race in what is not said here. */
void reads(struct device *device, struct floats floats);
void writes(struct device *device, struct floats floats);
int submit(struct device *device, uint32_t stream, shardproof_work_kind kind, const char *label, int64_t cost_ns,
           void (*compute)(const void *of), const void *of);
int communicate(struct device *device, uint32_t stream, shardproof_collective_kind kind, shardproof_reduce_op op, struct floats in,
                struct floats out, const char *tag);

#endif
