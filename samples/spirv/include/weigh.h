float weigh(float value, float by)
{
    float product = value * by;
    return product;
}
