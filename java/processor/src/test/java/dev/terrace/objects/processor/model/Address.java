package dev.terrace.objects.processor.model;

import static dev.terrace.objects.StorageTier.PMEM;

import dev.terrace.objects.Durable;
import dev.terrace.objects.Embedded;
import dev.terrace.objects.FixedLength;
import dev.terrace.objects.Formerly;
import dev.terrace.objects.Tier;

/// Private fields: read and written by methods of each usual form.
@Durable
public class Address {
    @Formerly("road")
    private String street;

    @Tier(PMEM)
    private int zip;

    private boolean open;

    @Embedded private Geo geo;

    @FixedLength(2)
    private double[] bounds = new double[2];

    private Person owner;

    public String getStreet() {
        return street;
    }

    public void setStreet(String street) {
        this.street = street;
    }

    public int zip() {
        return zip;
    }

    public Address zip(int newZip) {
        zip = newZip;
        return this;
    }

    public boolean isOpen() {
        return open;
    }

    public void setOpen(boolean open) {
        this.open = open;
    }

    Geo getGeo() {
        return geo;
    }

    void setGeo(Geo geo) {
        this.geo = geo;
    }

    public double[] getBounds() {
        return bounds;
    }

    public void setBounds(double[] bounds) {
        this.bounds = bounds;
    }

    public Person getOwner() {
        return owner;
    }

    public void setOwner(Person owner) {
        this.owner = owner;
    }
}
