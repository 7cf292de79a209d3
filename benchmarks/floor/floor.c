/* Loops that learn online in C: what a core can do without a framework. Compiled by floor.py, for fixed sizes.

   Networks have tanh units, one output and no bias; RECORD_EVERY steps give one record: the mean loss, and how far U
   and W have moved. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS (INPUTS * HIDDEN)

typedef struct {
  float u[WEIGHTS], w[HIDDEN];   /* the weights, and behind them what the rule keeps */
  float h[WEIGHTS];              /* the memory of crossprop, or adam's mean for U */
  float h_w[HIDDEN], v[WEIGHTS], v_w[HIDDEN];
} State;

static float forward(const State *s, const float *x, float *phi) {
  memset(phi, 0, HIDDEN * sizeof(float));
  for (int i = 0; i < INPUTS; i++)
    for (int j = 0; j < HIDDEN; j++) phi[j] += x[i] * s->u[i * HIDDEN + j];
  float output = 0;
  for (int j = 0; j < HIDDEN; j++) {
    phi[j] = tanhf(phi[j]);
    output += phi[j] * s->w[j];
  }
  return output;
}

static void step_crossprop(State *s, const float *x, const float *phi, float delta, float a, int t) {
  float take[HIDDEN], keep[HIDDEN], new[HIDDEN];
  for (int j = 0; j < HIDDEN; j++) {
    take[j] = a * delta * phi[j];
    keep[j] = 1 - a * phi[j] * phi[j];
    new[j] = a * delta * (1 - phi[j] * phi[j]);
    s->w[j] += take[j];
  }
  for (int i = 0; i < INPUTS; i++) {
    float *restrict u = s->u + i * HIDDEN, *restrict h = s->h + i * HIDDEN;
    for (int j = 0; j < HIDDEN; j++) {
      u[j] += take[j] * h[j];
      h[j] = h[j] * keep[j] + x[i] * new[j];
    }
  }
}

static void step_backprop(State *s, const float *x, const float *phi, float delta, float a, int t) {
  float new[HIDDEN];
  for (int j = 0; j < HIDDEN; j++) {
    new[j] = a * delta * s->w[j] * (1 - phi[j] * phi[j]);
    s->w[j] += a * delta * phi[j];
  }
  for (int i = 0; i < INPUTS; i++)
    for (int j = 0; j < HIDDEN; j++) s->u[i * HIDDEN + j] += x[i] * new[j];
}

static inline float adam(float g, float *m, float *v, float a, float root) {
  *m = 0.9f * *m + 0.1f * g;
  *v = 0.999f * *v + 0.001f * g * g;
  return a * *m / (root * sqrtf(*v) + 1e-8f);
}

static void step_adam(State *s, const float *x, const float *phi, float delta, float a, int t) {
  float g[HIDDEN], root = 1 / sqrtf(1 - powf(0.999f, t)), size = a / (1 - powf(0.9f, t));
  for (int j = 0; j < HIDDEN; j++) {
    g[j] = delta * s->w[j] * (1 - phi[j] * phi[j]);
    s->w[j] += adam(delta * phi[j], s->h_w + j, s->v_w + j, size, root);
  }
  for (int i = 0; i < INPUTS; i++) {
    float *restrict u = s->u + i * HIDDEN, *restrict m = s->h + i * HIDDEN, *restrict v = s->v + i * HIDDEN;
    for (int j = 0; j < HIDDEN; j++) u[j] += adam(x[i] * g[j], m + j, v + j, size, root);
  }
}

static float distance(const float *one, const float *other, int count) {
  float sum = 0;
  for (int i = 0; i < count; i++) sum += (one[i] - other[i]) * (one[i] - other[i]);
  return sqrtf(sum);
}

/* One run: u and w are the initial weights; records are (steps / RECORD_EVERY, 3). */
#define RUN(NAME)                                                                                                \
  void run_##NAME(const float *x, const float *y, int steps, float a, const float *u, const float *w, float *records) { \
    State *s = aligned_alloc(64, (sizeof(State) + 63) / 64 * 64);                                                \
    memset(s, 0, sizeof(State));                                                                                 \
    memcpy(s->u, u, sizeof(s->u));                                                                               \
    memcpy(s->w, w, sizeof(s->w));                                                                               \
    float phi[HIDDEN], loss = 0;                                                                                 \
    for (int t = 0; t < steps; t++, x += INPUTS) {                                                               \
      float delta = y[t] - forward(s, x, phi);                                                                   \
      loss += delta * delta;                                                                                     \
      step_##NAME(s, x, phi, delta, a, t + 1);                                                                   \
      if ((t + 1) % RECORD_EVERY == 0) {                                                                         \
        *records++ = loss / RECORD_EVERY;                                                                        \
        *records++ = distance(s->u, u, WEIGHTS);                                                                 \
        *records++ = distance(s->w, w, HIDDEN);                                                                  \
        loss = 0;                                                                                                \
      }                                                                                                          \
    }                                                                                                            \
    free(s);                                                                                                     \
  }
RUN(crossprop)
RUN(backprop)
RUN(adam)

static uint64_t bits(uint64_t *seed) { /* splitmix64 */
  uint64_t z = *seed += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* The examples of one task of GEOFF with up to 32 inputs: a feature fires where fewer than `least` of its inputs differ
   from the signs of its weights. */
void geoff(uint64_t seed, int steps, uint32_t least, float *x, float *y) {
  static _Thread_local uint32_t u[FEATURES];
  static _Thread_local int32_t w[FEATURES];
  uint32_t mask = INPUTS < 32 ? (1u << INPUTS) - 1 : ~0u;
  for (int j = 0; j < FEATURES; j++) {
    uint64_t drawn = bits(&seed);
    u[j] = drawn & mask;
    w[j] = (int)((drawn >> 32) % 3) - 1;
  }
  for (int t = 0; t < steps; t++) {
    uint64_t drawn = bits(&seed), noise = bits(&seed);
    uint32_t own = drawn & mask;
    int32_t sum = 0;
    for (int j = 0; j < FEATURES; j++) sum += __builtin_popcount(own ^ u[j]) < least ? w[j] : 0;
    for (int i = 0; i < INPUTS; i++) *x++ = (own >> i) & 1;
    float radius = sqrtf(-2 * logf((float)((noise >> 40) + 1) * 0x1p-24f));
    y[t] = sum + radius * cosf(6.2831853f * (float)(noise & 0xffffff) * 0x1p-24f);
  }
}
