"""The parts of the C files that c_code.py makes; `$word` is replaced. Blank space is put right there."""

HEADER = """\
/* $header: a model of odmlib $version as C code (odm-convert --to c).
   Machine $machine, kernel $kernel, $classes classes, $features features. */
#ifndef ${upper}_H
#define ${upper}_H

#ifdef __cplusplus
extern "C" {
#endif

#define ${upper}_FEATURES $features /* values of a row; feature $first of the data is x[0] */
#define ${upper}_CLASSES $classes
#define ${upper}_OUTPUTS $outputs /* scores of a row */

typedef $real ${name}_real;

/* The class of the row x of ${upper}_FEATURES values: 0 to ${upper}_CLASSES - 1. */
int ${name}_predict(const ${name}_real *x);

/* The label of a class; 0 where there is no such class. */
const char *${name}_label(int place);

/* The scores of the row x, ${upper}_OUTPUTS of them: $scores_note. */
void ${name}_scores(const ${name}_real *x, ${name}_real *scores);

/* The class that has these scores. */
int ${name}_decide(const ${name}_real *scores);

"""

REGRESSION_HEADER = """\
/* $header: a model of odmlib $version as C code (odm-convert --to c).
   Machine $machine, kernel $kernel, $outputs outputs, $features features. */
#ifndef ${upper}_H
#define ${upper}_H

#ifdef __cplusplus
extern "C" {
#endif

#define ${upper}_FEATURES $features /* values of a row; feature $first of the data is x[0] */
#define ${upper}_OUTPUTS $outputs /* predictions of a row */

typedef $real ${name}_real;

/* What is predicted for the row x of ${upper}_FEATURES values: ${upper}_OUTPUTS numbers, in the unit of the
   targets of the training. */
void ${name}_scores(const ${name}_real *x, ${name}_real *scores);

"""

ONE_PREDICTION_NOTE = """\
/* The one number that is predicted for the row x. */
${name}_real ${name}_predict(const ${name}_real *x);

"""

ONE_PREDICTION = """\
${name}_real ${name}_predict(const ${name}_real *x)
{
real score;
${name}_scores(x, &score);
return score;
}
"""

SCORES_NOTES = {
    "binary": "one, above 0 for class 0",
    "ovr": "one per class, the largest wins",
    "joint": "one per class, the largest wins",
    "ovo": "one per pair of classes (0,1) (0,2) ... (1,2) ...,\n   above 0: a vote for the first one",
}

SCALE_NOTE = """\
/* The row x as odm-scale would write it. All other functions take rows before scaling. */
void ${name}_scale(const ${name}_real *x, ${name}_real *row);

"""

PROBABILITIES_NOTE = """\
/* The probability of every class, ${upper}_CLASSES of them, for the scores of a row. */
void ${name}_probabilities(const ${name}_real *scores, ${name}_real *probabilities);

"""

HEADER_END = """\
#ifdef __cplusplus
}
#endif

#endif
"""

SOURCE = """\
/* $file: a model of odmlib $version as C code (odm-convert --to c). $header says how to use it. */
#include "$header"

#include <stddef.h>
#include <stdint.h>
$math
typedef ${name}_real real;

"""

IMAGE = """\
static real image(size_t j, real value)
{
if (low[j] == high[j]) {
return 0;
}
if (value == low[j]) {
return $lower;
}
if (value == high[j]) {
return $upper;
}
return $lower + ($upper - $lower) * (value - low[j]) / (high[j] - low[j]);
}
"""

SCALE = """\
void ${name}_scale(const ${name}_real *x, ${name}_real *row)
{
size_t j;
for (j = 0; j < $features; j++) {
row[j] = image(j, x[j]);
}
}
"""

POWER = """\
static real power(real base, unsigned degree)
{
real result = 1;
for (; degree > 0; degree /= 2) {
if (degree % 2) {
result *= base;
}
base *= base;
}
return result;
}
"""

KERNELS = {
    "linear": "sum",
    "poly": "power($gamma * sum + $coef0, ${degree}u)",
    "rbf": "exp$f(-$gamma * sum)",
    "sigmoid": "tanh$f($gamma * sum + $coef0)",
}

KERNEL_VALUE = """\
static real kernel(const real *x, size_t i$squares)
{
size_t k;
real sum = $begin;
${loop}return $value;
}
"""

SCORES = """\
void ${name}_scores(const ${name}_real *x, ${name}_real *scores)
{
size_t i, k;
${declare_row}${declare_squares}${fill_row}${fill_squares}for (k = 0; k < $outputs; k++) {
scores[k] = 0;
}
${sums}${add_constants}}
"""

FILL_ROW = "${name}_scale(x, row);\n"

FILL_SQUARES = """\
for (i = 0; i < $features; i++) {
squares += ${source}[i] * ${source}[i];
}
"""

ADD_CONSTANTS = """\
for (k = 0; k < $outputs; k++) {
scores[k] += constants[k];
}
"""

_LARGEST = """\
int ${name}_decide(const ${name}_real *scores)
{
int best = 0, c;
for (c = 1; c < $classes; c++) {
if (scores[c] > scores[best]) {
best = c;
}
}
return best;
}
"""

DECIDE = {
    "binary": """\
int ${name}_decide(const ${name}_real *scores)
{
return scores[0] > 0 ? 0 : 1;
}
""",
    "ovr": _LARGEST,
    "joint": _LARGEST,
    "ovo": """\
int ${name}_decide(const ${name}_real *scores)
{
int votes[$classes] = {0};
int best = 0, a, b;
size_t k = 0;
for (a = 0; a < $classes; a++) {
for (b = a + 1; b < $classes; b++) {
votes[scores[k++] > 0 ? a : b]++;
}
}
for (a = 1; a < $classes; a++) {
if (votes[a] > votes[best]) {
best = a;
}
}
return best;
}
""",
}

PREDICT = """\
int ${name}_predict(const ${name}_real *x)
{
real scores[$outputs];
${name}_scores(x, scores);
return ${name}_decide(scores);
}
"""

LABEL = """\
const char *${name}_label(int place)
{
return place >= 0 && place < $classes ? labels[place] : 0;
}
"""

# probability.py has the mathematics; `agree` is its `agreeing`
_LINE = """\
static real line(const real *scores, size_t k)
{
const real u = slopes[k] * scores[k] + shifts[k];
return u > $largest ? $largest : u < -$largest ? -$largest : u;
}
"""

_SIGMOID = """\
static real sigmoid(real u)
{
const real small = exp$f(u < 0 ? u : -u);
return (u < 0 ? small : 1) / (1 + small);
}
"""

_AGREE = """\
static void agree(real *p, int predicted)
{
real shared = p[predicted], share;
int n = 1, next, c;
for (;;) {
next = -1;
for (c = 0; c < $classes; c++) {
if (c != predicted && p[c] >= 0 && (next < 0 || p[c] > p[next])) {
next = c;
}
}
if (next < 0 || p[next] < shared / (real)n) {
break;
}
shared += p[next];
n++;
p[next] = -1;
}
share = shared / (real)n;
for (c = 0; c < $classes; c++) {
if (p[c] < 0) {
p[c] = share * (1 - $hair);
}
}
if (n > 1) {
p[predicted] = share * (1 + (real)(n - 1) * $hair);
}
}
"""

_SOFTMAX = (
    _LINE
    + "\n"
    + _AGREE
    + """
void ${name}_probabilities(const ${name}_real *scores, ${name}_real *probabilities)
{
real largest, sum = 0;
size_t k;
largest = line(scores, 0);
for (k = 0; k < $classes; k++) {
probabilities[k] = line(scores, k);
if (probabilities[k] > largest) {
largest = probabilities[k];
}
}
for (k = 0; k < $classes; k++) {
probabilities[k] = exp$f(probabilities[k] - largest);
sum += probabilities[k];
}
for (k = 0; k < $classes; k++) {
probabilities[k] /= sum;
}
agree(probabilities, ${name}_decide(scores));
}
"""
)

PROBABILITIES = {
    "ovr": _SOFTMAX,
    "joint": _SOFTMAX,
    "binary": _LINE
    + "\n"
    + _SIGMOID
    + "\n"
    + _AGREE
    + """
void ${name}_probabilities(const ${name}_real *scores, ${name}_real *probabilities)
{
const real u = line(scores, 0);
probabilities[0] = sigmoid(u);
probabilities[1] = sigmoid(-u);
agree(probabilities, ${name}_decide(scores));
}
""",
    "ovo": _LINE
    + "\n"
    + _SIGMOID
    + "\n"
    + _AGREE
    + """
/* P(a | a or b), of the pair in either order */
static real duel(const real *pairs, int a, int b)
{
if (a < b) {
return pairs[(size_t)a * (2 * $classes - (size_t)a - 1) / 2 + (size_t)(b - a) - 1];
}
return 1 - pairs[(size_t)b * (2 * $classes - (size_t)b - 1) / 2 + (size_t)(a - b) - 1];
}

/* an entry of the matrix Q of Wu, Lin and Weng's coupling */
static real coupling(const real *pairs, int a, int b)
{
real sum = 0;
int c;
if (a != b) {
return -duel(pairs, a, b) * duel(pairs, b, a);
}
for (c = 0; c < $classes; c++) {
if (c != a) {
sum += duel(pairs, c, a) * duel(pairs, c, a);
}
}
return sum;
}

void ${name}_probabilities(const ${name}_real *scores, ${name}_real *probabilities)
{
real pairs[$outputs], diagonal[$classes], product[$classes];
real *const p = probabilities;
size_t k;
int a, b, step;
for (k = 0; k < $outputs; k++) {
const real r = sigmoid(line(scores, k));
pairs[k] = r < 1e-7$f ? 1e-7$f : r > 1 - 1e-7$f ? 1 - 1e-7$f : r;
}
for (a = 0; a < $classes; a++) {
p[a] = 1 / (real)$classes;
diagonal[a] = coupling(pairs, a, a);
}
for (step = 0; step < $steps; step++) {
real total = 0, worst = 0;
for (a = 0; a < $classes; a++) {
product[a] = 0;
for (b = 0; b < $classes; b++) {
product[a] += (a == b ? diagonal[a] : coupling(pairs, a, b)) * p[b];
}
total += p[a] * product[a];
}
for (a = 0; a < $classes; a++) {
const real error = product[a] < total ? total - product[a] : product[a] - total;
worst = error > worst ? error : worst;
}
if (worst < $enough) {
break;
}
for (a = 0; a < $classes; a++) {
const real change = (total - product[a]) / diagonal[a];
const real whole = 1 + change;
p[a] += change;
total = (total + change * (change * diagonal[a] + 2 * product[a])) / (whole * whole);
for (b = 0; b < $classes; b++) {
product[b] = (product[b] + change * (a == b ? diagonal[a] : coupling(pairs, a, b))) / whole;
p[b] /= whole;
}
}
}
agree(probabilities, ${name}_decide(scores));
}
""",
}
