<?php
namespace App\Form;

use Symfony\Component\Form\AbstractType;
use Symfony\Component\Form\Extension\Core\Type\{ChoiceType, EmailType, SubmitType, TextareaType, TextType};
use Symfony\Component\Form\FormBuilderInterface;
use Symfony\Component\Validator\Constraints as Assert;

final class ContactType extends AbstractType
{
    public function buildForm(FormBuilderInterface $builder, array $options): void
    {
        $builder
            ->add('name', TextType::class, ['constraints' => [new Assert\NotBlank(), new Assert\Length(['max' => 40])]])
            ->add('email', EmailType::class, ['constraints' => [new Assert\NotBlank(), new Assert\Email()]])
            ->add('topic', ChoiceType::class, ['choices' => ['Praise' => 'praise', 'Blame' => 'blame']])
            ->add('message', TextareaType::class, ['constraints' => [new Assert\Length(['min' => 10])]])
            ->add('send', SubmitType::class);
    }
}
